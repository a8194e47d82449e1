#!/usr/bin/env bash
# Runs on a GPU host before each job's first step (ACTIONS_RUNNER_HOOK_JOB_STARTED). Where this
# does not exit 0 the job fails, but its steps with `always()` still run: see README.md beside it.
set -euo pipefail
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# The folder that the runner starts this in may hold files of earlier jobs.
cd -- "$here"

deny() {
  printf 'job-started: denied: %s\n' "$1"
  exit 1
}

if [[ -e state/out-of-service ]]; then
  deny 'this host is out of service: its administrator reads state/out-of-service and removes it'
fi
[[ -x venv/bin/runci ]] || deny 'runci is not installed here: see README.md, step 3'

# Only what GitHub's service says about the run, and nothing that a workflow could have set.
clean=(
  "PATH=$PATH" "HOME=$here" "LANG=C.UTF-8" "PYTHONSAFEPATH=1" "PYTHONNOUSERSITE=1"
  "GITHUB_EVENT_NAME=${GITHUB_EVENT_NAME:-}"
  "GITHUB_EVENT_PATH=${GITHUB_EVENT_PATH:-}"
  "GITHUB_REF=${GITHUB_REF:-}"
  "GITHUB_REPOSITORY=${GITHUB_REPOSITORY:-}"
  "GITHUB_RUN_ATTEMPT=${GITHUB_RUN_ATTEMPT:-}"
  "GITHUB_RUN_ID=${GITHUB_RUN_ID:-}"
  "GITHUB_SHA=${GITHUB_SHA:-}"
  "GITHUB_WORKFLOW_REF=${GITHUB_WORKFLOW_REF:-}"
)
# Whatever does not end with «allow», a time-out and a crash too, denies.
env -i "${clean[@]}" timeout --kill-after=5 120 \
  "$here/venv/bin/runci" gate --host "$here/host.yml" || deny 'see the reason above'
