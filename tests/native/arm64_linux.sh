#!/bin/sh
# Builds the native code for Linux on arm64 and runs it under qemu's user emulation: the kernels against scalar loops and
# against each other, conversion at the ports against NumPy, and whole programs on the host backend and on the engine's road
# over the stand-in, judged on this side (arm64.py). Needs qemu-aarch64 and the PyPI package ziglang; everything is linked
# whole (musl), so that no library of the other system is needed.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
python=${PYTHON:-python3}
out=${OUT:-build/linux-arm64}
emulator=${EMULATOR:-qemu-aarch64}
command -v "$emulator" > /dev/null || { echo "no $emulator here: not run"; exit 0; }
mkdir -p "$out/objects"
out=$(cd "$out" && pwd)
CXX="$python -m ziglang c++ -target aarch64-linux-musl"
# Small code compiles in half the time; what is written for NEON is optimized as it is shipped.
FLAGS="-std=c++17 -Os -fvisibility=hidden -ffp-contract=off -Wall -Wextra -Werror -Inative -Itests/native"
NEON="native/host/vector/neon.cc native/runtime/port_blocks.cc"
export CXX FLAGS NEON

# The first link builds the C and C++ libraries of the target, which takes a minute and one processor; begun while the
# sources compile.
echo 'int main() { throw 1; }' > "$out/first.cc"
$CXX -O2 -static -o "$out/first" "$out/first.cc" &

object() { echo "$out/objects/$(echo "$1" | tr / _ | sed 's/\.cc$/.o/')"; }
product=$(find native/core native/mil native/host native/runtime native/ep -name '*.cc' | sort)
tests="tests/native/vector_selftest.cc tests/native/vector_plans.cc tests/native/conversion_selftest.cc
  tests/native/run_programs.cc tests/native/static_dlfcn.cc tests/standin/standin.cc"
# The longest first, so that all processors are busy to the end. What did not change, the compiler has in its own cache.
{
  echo native/host/vector/portable.cc
  echo native/host/vector/neon.cc
  for source in $product $tests; do echo "$source"; done
} | awk '!seen[$0]++' | while read -r source; do echo "$source $(object "$source")"; done | xargs -P "$(nproc)" -L 1 sh -c 'case " $NEON " in *" $0 "*) set -- "$1" -O2 ;; esac; $CXX $FLAGS $2 -c "$0" -o "$1"'
wait

link() {
  target=$1
  shift
  files=""
  for source in "$@"; do files="$files $(object "$source")"; done
  $CXX -O2 -static -o "$out/$target" $files
}
vector=$(find native/host/vector -name '*.cc' | sort)
link vector_selftest $vector tests/native/vector_selftest.cc tests/native/vector_plans.cc
link conversion_selftest native/runtime/ports.cc native/runtime/port_blocks.cc native/core/tensor.cc tests/native/conversion_selftest.cc
link run_programs $product tests/native/run_programs.cc tests/native/static_dlfcn.cc tests/standin/standin.cc

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export OPENBLAS_NUM_THREADS=1
"$python" tests/native/arm64.py write "$scratch"
ANEFORGE_EMULATOR=$emulator "$emulator" "$out/vector_selftest" > "$scratch/vector" || { cat "$scratch/vector"; exit 1; }
grep -e '^kernels' -e '^plans' -e '^all' "$scratch/vector"
"$emulator" "$out/conversion_selftest" "$scratch/conversions"
"$emulator" "$out/run_programs" host "$scratch"/programs/*
"$python" tests/native/arm64.py judge "$scratch" host
# The engine's road takes ports of halves alone, and has no numerics of its own.
rm -rf "$scratch"/programs/*-fp32 "$scratch"/programs/*-engine "$scratch"/programs/*/out* "$scratch"/programs/*/error
mkdir "$scratch/cache"
for folder in "$scratch"/programs/*; do echo "folder $scratch/cache" > "$folder/options"; done
ANEFORGE_E5RT_LIBRARY=standin STANDIN_PYTHON=$("$python" -c 'import sys; print(sys.executable)') STANDIN_TESTS="$root/tests" \
  "$emulator" "$out/run_programs" e5rt "$scratch"/programs/*
"$python" tests/native/arm64.py judge "$scratch" e5rt
