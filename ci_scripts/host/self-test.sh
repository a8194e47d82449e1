#!/bin/bash -p
# Tries the hook out below a played worker: a copy of bash named Runner.Worker, which runs
# job-started.sh and then, whatever came of it, an `always()` step, as the runner does. Run it as
# the runner's account. It asks GitHub for no run that exists, so the answer must be a denial.
set -uo pipefail
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
cd -- "$(dirname -- "${BASH_SOURCE[0]}")" || exit 2
scratch=$(mktemp -d) || exit 2
trap 'rm -rf -- "$scratch"' EXIT
cp -- "$BASH" "$scratch/Runner.Worker" && printf '{}\n' >"$scratch/event.json" || exit 2
export GITHUB_EVENT_PATH=$scratch/event.json GITHUB_EVENT_NAME=pull_request GITHUB_RUN_ID=1
faults=0

play() { # NAME: starts a worker in the background, sets `worker`
  # shellcheck disable=SC2016 # the worker expands it
  "$scratch/Runner.Worker" -c 'bash -e "$1"; printf "%s\n" "$?" >"$2"' \
    worker "$PWD/job-started.sh" "$scratch/$1.always" >"$scratch/$1.out" 2>&1 &
  worker=$!
}

report() { # NAME: whether the worker's step stayed unrun
  if [[ -e $scratch/$1.always ]]; then
    printf 'self-test: %s: FAULT: the always() step ran\n' "$1"
    faults=1
  else
    printf 'self-test: %s: the always() step did not run\n' "$1"
  fi
}

play denial
wait "$worker" 2>/dev/null
code=$?
cat -- "$scratch/denial.out"
report denial
if [[ $code -ne 137 ]]; then
  printf 'self-test: denial: FAULT: the worker was not killed (it ended with %s)\n' "$code"
  faults=1
fi

# A hook that is killed leaves the worker stopped.
play 'killed hook'
state=''
for _ in {1..200}; do
  read -r _ _ state _ 2>/dev/null <"/proc/$worker/stat" || break
  [[ $state != T ]] || break
  sleep 0.01
done
hook=$(ps -o pid= --ppid "$worker" | tr -d ' ')
if [[ $state == T && -n $hook ]]; then
  kill -s KILL "$hook"
else
  printf 'self-test: killed hook: FAULT: the worker was not seen stopped (is runci installed?)\n'
  faults=1
fi
sleep 1
report 'killed hook'
kill -s KILL "$worker" 2>/dev/null
wait "$worker" 2>/dev/null
exit "$faults"
