#!/bin/bash -p
# Runs on a GPU host before each job's first step (ACTIONS_RUNNER_HOOK_JOB_STARTED). A hook that
# fails does not keep the job's steps with `always()` from running, so this stops the runner's
# worker first, lets it go on only where `runci gate` allows, and kills it where it denies. However
# this ends otherwise, the worker stays stopped. docs/host.md says what that rests on.

# From here no function that the caller exported stands in for a special built-in, nor, after the
# next line, for what the first stage calls. What acts before the first line is beyond a script.
POSIXLY_CORRECT=1
unset -f cd dirname env kill local read readlink
unset BASH_ENV CDPATH ENV LD_AUDIT LD_LIBRARY_PATH LD_PRELOAD
set -euo pipefail
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

find_worker() { # sets `worker`: the nearest process above this one that is the runner's worker
  local pid=$$ parent exe key value
  worker=''
  while [[ $pid -gt 1 ]]; do
    parent=0 # where it cannot be read, nothing above it can be ours
    { while read -r key value; do
      if [[ $key == PPid: ]]; then parent=$value; fi
    done <"/proc/$pid/status"; } 2>/dev/null || true
    pid=$parent
    exe=$(readlink -- "/proc/$pid/exe") || exe=''
    exe=${exe% (deleted)} # what an update of the runner replaced
    if [[ ${exe##*/} == Runner.Worker ]]; then worker=$pid && return; fi
  done
}

# The first stage, as the runner starts it: stop the worker, and begin again without its variables.
if [[ ${1-} != decide ]]; then
  find_worker
  if [[ -n $worker ]]; then kill -s STOP "$worker" || worker=''; fi
  # The folder that the runner starts this in may hold files of earlier jobs.
  cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
  # Only what GitHub's service says about the run, and nothing that a workflow could have set.
  clean=(
    "PATH=$PATH" "HOME=$PWD" "LANG=C.UTF-8" "PYTHONSAFEPATH=1" "PYTHONNOUSERSITE=1"
    "GITHUB_EVENT_NAME=${GITHUB_EVENT_NAME:-}"
    "GITHUB_EVENT_PATH=${GITHUB_EVENT_PATH:-}"
    "GITHUB_REF=${GITHUB_REF:-}"
    "GITHUB_REPOSITORY=${GITHUB_REPOSITORY:-}"
    "GITHUB_RUN_ATTEMPT=${GITHUB_RUN_ATTEMPT:-}"
    "GITHUB_RUN_ID=${GITHUB_RUN_ID:-}"
    "GITHUB_SHA=${GITHUB_SHA:-}"
    "GITHUB_WORKFLOW_REF=${GITHUB_WORKFLOW_REF:-}"
  )
  exec env -i "${clean[@]}" bash -- "$PWD/job-started.sh" decide "$worker"
fi

# The second stage: the worker is stopped, and everything here is ours.
held=$2
said=''

setting() { # NAME DEFAULT: a line NAME=VALUE of host.conf, read and never executed
  local value=''
  [[ -r host.conf ]] && value=$(sed -n "s/^$1=//p" host.conf | tail -n 1)
  printf '%s' "${value:-$2}"
}

log_size() { stat -c %s state/decisions.log 2>/dev/null || true; }

note() { # REASON: a line of the log, for what the gate could not say itself
  [[ -f state/decisions.log && ! -L state/decisions.log ]] || return 0
  printf '%s deny hook run=%s/%s reason=%s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" \
    "${GITHUB_RUN_ID//[^0-9]/}" "${GITHUB_RUN_ATTEMPT//[^0-9]/}" "$1" |
    timeout 5 tee -a -- state/decisions.log >/dev/null || true
}

runners_alone() { # whether nobody but the runner uses this account: its processes may be killed
  local user entry found=0 shell
  user=$(setting JOB_USER '')
  entry=$(getent passwd "$UID") || found=$?
  # 2: the account has no entry, so nobody logs in as it.
  [[ $UID -ne 0 && $UID -eq $EUID && -n $user && ($found -eq 0 || $found -eq 2) ]] || return 1
  [[ $user == "$UID" || $user == "${entry%%:*}" ]] || return 1
  shell=${entry##*[:/]}
  [[ -z $entry || $shell == nologin || $shell == false ]]
}

processes() { # sets `left`: the other processes of this account
  local status key value pid state owner
  left=()
  for status in /proc/[0-9]*/status; do
    pid='' state='' owner=''
    { while read -r key value _; do
      case $key in
        Pid:) pid=$value ;;
        State:) state=$value ;;
        Uid:) owner=$value ;;
      esac
    done <"$status"; } 2>/dev/null || true
    if [[ $owner == "$UID" && $state != Z && $pid != "$$" ]]; then left+=("$pid"); fi
  done
}

end_account() {
  if ! runners_alone; then
    printf 'job-started: no Runner.Worker was found, and this account is not the JOB_USER of %s\n' \
      'host.conf, or people log in as it: nothing was killed, and steps with always() may run'
    return
  fi
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    processes
    [[ ${#left[@]} -gt 0 ]] || break
    kill -s KILL -- "${left[@]}" 2>/dev/null || true
    sleep 0.2
  done
}

deny() { # REASON [LOGGED]: ends what would run the job's steps, then this
  local text="job-started: denied: $1"
  if [[ -n $said ]]; then text+=$'\n'$said; fi
  trap '' PIPE # who reads our output is about to die
  [[ -n ${2-} ]] || note "$1"
  if [[ -z $held ]]; then
    end_account || true
  else
    find_worker || worker=''
    # Another process may have its number by now, but not among those above us.
    if [[ $worker == "$held" ]]; then
      # The listener shows what a worker that died wrote here; it must not keep us waiting.
      printf '%s\n' "${text:0:4000}" | timeout 5 tee -a -- "/proc/$worker/fd/2" >/dev/null 2>&1 || true
      kill -s KILL "$worker" || true
    fi
  fi
  printf '%s\n' "$text" || true
  exit 1
}

if [[ -e state/out-of-service || -L state/out-of-service ]]; then
  deny 'this host is out of service: its administrator reads state/out-of-service and removes it'
fi
if [[ -z $held ]]; then
  deny 'no Runner.Worker above this hook, so it can hold nothing: to try it out, see self-test.sh'
fi
[[ -x venv/bin/runci ]] || deny 'runci is not installed here: see docs/host.md, step 3'

seconds=$(setting GATE_SECONDS 120)
before=$(log_size)
code=0
# The worker reads nothing while it is stopped, so what the gate says is kept here until later.
said=$(timeout --kill-after=5 "$seconds" "$HOME/venv/bin/runci" gate --host "$HOME/host.yml" \
  2>&1 </dev/null) || code=$?
# Whatever does not end with «allow», a time-out and a crash too, denies.
if [[ $code -ne 0 ]]; then
  logged=''
  if [[ $(log_size) != "$before" ]]; then logged=yes; fi
  deny "the gate ended with $code" "$logged"
fi
kill -s CONT "$held" || deny 'the worker is gone'
printf '%s\njob-started: allowed\n' "$said"
