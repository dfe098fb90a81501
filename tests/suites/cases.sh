#!/bin/sh
# Runs a folder of small hard cases (its verify.py says what is right), each in a process of its own: through the provider at
# both optimization levels, and strictly. Usage: cases.sh FOLDER
#
# Two cases cannot pass strictly, and are named here. io_bad_feeds_then_good wants a float64 feed refused, but the strict engine
# of verify.py makes every float feed fp16 before it calls af.load_onnx's model, so the bad feed is the same array as the good one.
# scan_with_two_states wants Scan refused; a Scan of known length is unrolled here, and tests/onnx/test_onnx_control.py holds its
# values against ONNX Runtime's.
set -eu
folder=$1
python=${PYTHON:-python3}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
status=0
"$python" "$folder/verify.py" --provider ANEForgeProvider --isolate --failures-only > "$out/provider" 2>&1 &
provider=$!
"$python" "$folder/verify.py" --strict --isolate --failures-only > "$out/strict" 2>&1 || true
wait "$provider" || status=1
cat "$out/provider" "$out/strict"
grep -qE '^[0-9]+ cases, [0-9]+ checks' "$out/strict" || status=1
if grep -E '^[^ ]+ +(strict|process|harness) ' "$out/strict" | grep -vE '^(io_bad_feeds_then_good|scan_with_two_states) '; then status=1; fi
[ "$status" = 0 ] && echo "cases: as wanted"
exit $status
