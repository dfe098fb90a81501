#!/bin/sh
# Runs a folder of small hard cases (its verify.py says what is right), each in a process of its own: through the provider at
# both optimization levels, and strictly. Usage: cases.sh FOLDER
set -eu
folder=$1
python=${PYTHON:-python3}
status=0
"$python" "$folder/verify.py" --provider ANEForgeProvider --isolate --failures-only &
provider=$!
"$python" "$folder/verify.py" --strict --isolate --failures-only || status=1
wait "$provider" || status=1
exit $status
