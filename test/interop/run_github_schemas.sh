#!/usr/bin/env bash
# Cut GitHub's schemas anew from the package that test/fixtures/github names, and compare; then hold
# the saved events and the played API against the newest package. Downloads about 30 MB twice.
set -euo pipefail
cd "$(dirname "$0")/../.."

fixtures=test/fixtures/github
test=test/registered/unit/runci/gate/test_github_schemas.py
python=${PYTHON:-.venv/bin/python}
node=$(dirname "$python")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

field() { "$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$@"; }

# The 392 MB beside the one file that is read stay packed.
schemas() { # VERSION DATE OUTPUT
    mkdir "$folder/$1"
    PATH="$node:$PATH" npm pack --silent --pack-destination "$folder/$1" "@octokit/openapi@$1" > /dev/null
    tar xzf "$folder/$1"/*.tgz -C "$folder/$1" package/package.json package/generated/api.github.com.json
    "$python" "$fixtures/extract.py" "$folder/$1/package" "$2" > "$3"
}

version=$(field "$fixtures/schemas.json" version)
schemas "$version" "$(field "$fixtures/schemas.json" taken)" "$folder/same.json"
cmp "$folder/same.json" "$fixtures/schemas.json"
echo "test/fixtures/github/schemas.json is what @octokit/openapi $version holds"

schemas latest "$(date -u +%F)" "$folder/newest.json"
echo "against @octokit/openapi $(field "$folder/newest.json" version)"
RUNCI_GITHUB_SCHEMAS=$folder/newest.json "$python" -m pytest -q "$test"
