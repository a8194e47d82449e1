#!/usr/bin/env bash
# Writes EXTRAS.txt anew: what runci needs with these extras, each file by its hash, and what builds
# it. Needs uv. Run it after a change of the dependencies in pyproject.toml, and to take newer ones.
set -euo pipefail
cd "$(dirname "$0")"

compile() {
  local extras=$1
  shift
  local options=()
  for extra in ${extras//,/ }; do options+=(--extra "$extra"); done
  uv pip compile --no-config --quiet --upgrade --generate-hashes --no-header --no-annotate \
    --no-emit-index-url --no-emit-find-links --only-binary :all: "${options[@]}" "$@" \
    ../../pyproject.toml build.in |
    # Built here and there, a source archive would fetch what no hash names.
    { printf '%s\n' "# ci_scripts/pinned/update.sh wrote this." "--only-binary :all:" && cat; } > "$extras.new"
  mv "$extras.new" "$extras.txt"
}

# A GPU host, and whoever uses the action, has any Python from 3.10 on; the nightly has its own.
compile github --universal --python-version 3.10
compile github,run --universal --python-version 3.10
compile release --python-version 3.12 --python-platform linux
compile docs --python-version 3.12 --python-platform linux
compile perf --python-version 3.12 --python-platform linux
