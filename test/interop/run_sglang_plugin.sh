#!/usr/bin/env bash
# Test the plugin in the released SGLang; makes .venv-interop on the first run (several GB: torch).
set -euo pipefail
cd "$(dirname "$0")/../.."

python=${PYTHON:-python3}
environment=${VENV_INTEROP:-.venv-interop}
bin=$environment/bin
requirements=test/interop/sglang-requirements.txt

# A changed list or package definition sets the environment up anew.
stamp=$environment/$(cat "$requirements" kernel/pyproject.toml | sha256sum | cut -c1-16).stamp
if [ ! -e "$stamp" ]; then
    [ -x "$bin/python" ] || "$python" -m venv "$environment"
    "$bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"
    # Its dependencies are a GPU server's; the list above is what the imports here need.
    "$bin/python" -m pip install --quiet --disable-pip-version-check --no-deps sglang==0.5.23
    "$bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -e ./kernel
    touch "$stamp"
fi
"$bin/python" -W ignore test/interop/test_sglang_plugin.py -v
