#!/bin/sh
# mypy on the packages as they are installed: provider/ and partitioner/ stand at the top of the repository, and are parts of
# `aneforge`. It is shown a folder of links in which they are where their imports say.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python3}
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir "$tree/aneforge"
ln -s "$root"/aneforge/* "$root/provider" "$root/partitioner" "$tree/aneforge/"
cp "$root/pyproject.toml" "$tree/"
cd "$tree"
"$python" -m mypy -p aneforge
