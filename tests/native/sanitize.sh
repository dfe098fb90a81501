#!/bin/sh
# Builds the native code with AddressSanitizer and UndefinedBehaviorSanitizer into a scratch environment and runs the native
# and provider tests on it.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
ANEFORGE_SANITIZE=address,undefined CC=gcc CXX=g++ "$python" -m pip install -q --no-deps --target "$scratch/site" .
cp -r tests "$scratch/tests"
cd "$scratch"
LD_PRELOAD="$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libubsan.so):$(g++ -print-file-name=libstdc++.so)" ASAN_OPTIONS=detect_leaks=0 \
  UBSAN_OPTIONS=halt_on_error=1 PYTHONPATH="$scratch/site" "$python" -m pytest -q -p no:cacheprovider tests/native tests/provider -m "not full"
