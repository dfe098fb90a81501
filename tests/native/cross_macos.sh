#!/bin/sh
# Compiles every native source for macOS on Apple silicon and links libaneforge_ep, from any machine, with clang from the PyPI
# package ziglang. It proves that the code builds and links there; nothing can run it here.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
out=${OUT:-build/macos-arm64}
mkdir -p "$out"
cxx="$python -m ziglang c++ -target aarch64-macos"
flags="-std=c++17 -O2 -fvisibility=hidden -ffp-contract=off -fPIC -Wall -Wextra -Werror -Inative"
objects=""
for file in $(find native -path native/python -prune -o -name '*.cc' -print | sort); do
  object="$out/$(echo "$file" | tr / _ | sed 's/\.cc$/.o/')"
  # Objects are kept: a second run compiles what is newer than its object, or all if a header is.
  if [ ! -f "$object" ] || [ -n "$(find "$file" native -newer "$object" \( -path "$file" -o -name '*.h' -o -name '*.inl' \) | head -n 1)" ]; then
    $cxx $flags -c "$file" -o "$object"
  fi
  objects="$objects $object"
done
$cxx -dynamiclib -Wl,-exported_symbols_list,native/ep/exports.txt -o "$out/libaneforge_ep.dylib" $objects
"$python" - "$out/libaneforge_ep.dylib" <<'PY'
import sys
header = open(sys.argv[1], "rb").read(8)
assert header[:4] == b"\xcf\xfa\xed\xfe" and header[4:8] == b"\x0c\x00\x00\x01", "not a 64-bit arm64 Mach-O file"
print("linked", sys.argv[1])
PY
# The Python module needs the headers of a Mac's Python to link; it is compiled against those here, which are the same API.
includes="$("$python" -c 'import sysconfig, pybind11; print("-I" + sysconfig.get_paths()["include"], "-I" + pybind11.get_include())')"
for file in native/python/*.cc; do
  $cxx $flags -Wno-unused-parameter $includes -c "$file" -o "$out/$(basename "$file" .cc)_python.o"
done
echo "compiled native/python for macOS arm64"
