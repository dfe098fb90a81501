#!/bin/sh
# Builds the native code with AddressSanitizer and UndefinedBehaviorSanitizer in a copy of the tree (an object that was compiled
# without them would be taken for theirs) and runs the native and provider tests on it.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/tree"
tar -c --exclude ./build --exclude ./.git --exclude ./.venv --exclude '*.so' --exclude __pycache__ . | tar -x -C "$scratch/tree"
cd "$scratch/tree"
ANEFORGE_SANITIZE=address,undefined CC=gcc CXX=g++ "$python" -m pip install -q --no-deps --target "$scratch/site" .
rm -r aneforge provider partitioner build
export LD_PRELOAD="$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libubsan.so):$(g++ -print-file-name=libstdc++.so)"
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1 PYTHONPATH="$scratch/site"
"$python" - <<'CHECK'
import aneforge
from aneforge.backends import native
assert b"__asan_init" in native.library_path().read_bytes(), "the library was built without the sanitizers"
print(aneforge.__file__)
CHECK
"$python" -m pytest -q -p no:cacheprovider tests/native tests/provider -m "not full"
