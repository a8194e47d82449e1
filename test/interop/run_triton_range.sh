#!/usr/bin/env bash
# Compile every shape with the oldest and the newest Triton that kernel/pyproject.toml allows, and
# look at the code; no GPU. Downloads a wheel of 200 to 290 MB for each.
set -euo pipefail
cd "$(dirname "$0")/../.."

python=${PYTHON:-.venv/bin/python}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

range=$("$python" -c 'import re, sys
print(*re.search(r"triton>=([0-9.]+),<([0-9.]+)", open(sys.argv[1]).read()).groups())' kernel/pyproject.toml)
oldest=${range% *} below=${range#* }

for wanted in "~=$oldest.0" ">=$oldest,<$below"; do
    rm -rf "$folder/triton"
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$folder/triton" "triton$wanted"
    TRITON_CACHE_DIR=$folder/cache PYTHONPATH=$folder/triton "$python" test/interop/test_triton_range.py
done
