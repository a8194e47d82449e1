#!/usr/bin/env bash
# Runs on a GPU host after each job's last step (ACTIONS_RUNNER_HOOK_JOB_COMPLETED): ends what the
# job left running, and takes the host out of service when a GPU is not free afterwards. This keeps
# a host clean; it stops no attacker, who has been this user. docs/host.md says what does.
set -euo pipefail
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
cd -- "$here"
uid=$(id -u)

setting() { # NAME DEFAULT: a line NAME=VALUE of host.conf, read and never executed
  local value=''
  [[ -r host.conf ]] && value=$(sed -n "s/^$1=//p" host.conf | tail -n 1)
  printf '%s' "${value:-$2}"
}

out_of_service() {
  local file line
  line="$(date -u +%Y-%m-%dT%H:%M:%SZ) out-of-service $1"
  printf 'job-completed: out of service: %s\n' "$1"
  # That it exists decides. A job may have made it first, and as a pipe, where writing would wait.
  [[ -e state/out-of-service || -L state/out-of-service ]] || : >state/out-of-service || true
  for file in state/out-of-service state/decisions.log; do
    if [[ -f $file && ! -L $file ]]; then
      timeout 5 tee -a -- "$file" <<<"$line" >/dev/null || true
    fi
  done
  exit 1
}

user=$(setting JOB_USER '')
# Every other process of this account is ended below, so it must be the runner's alone.
if [[ $uid -eq 0 || ($user != "$uid" && $user != "$(id -un 2>/dev/null)") ]]; then
  out_of_service "JOB_USER in host.conf is '$user', not this account ($uid): see docs/host.md, step 4"
fi

# The runner itself is among the processes that started this one.
kept=" $$ "
pid=$$
while [[ $pid -gt 1 ]]; do
  pid=$(ps -o ppid= -p "$pid" | tr -d ' ')
  kept+="$pid "
done

leftovers() { # sets `left`: the processes of this account that are neither the runner's nor ours
  local rows row
  left=()
  mapfile -t rows < <(ps -o pid=,ppid=,stat= -U "$uid")
  for row in "${rows[@]}"; do
    read -r pid parent state <<<"$row"
    if [[ $kept != *" $pid "* && $parent != "$$" && $state != Z* ]]; then left+=("$pid"); fi
  done
}

for signal in TERM KILL KILL KILL KILL; do
  leftovers
  [[ ${#left[@]} -gt 0 ]] || break
  printf 'job-completed: %s to leftover processes: %s\n' "$signal" "${left[*]}"
  kill -s "$signal" -- "${left[@]}" 2>/dev/null || true
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    leftovers
    [[ ${#left[@]} -gt 0 ]] || break
    sleep 0.5
  done
done
leftovers
[[ ${#left[@]} -eq 0 ]] || out_of_service "processes that do not end: ${left[*]}"

smi=$(setting NVIDIA_SMI /usr/bin/nvidia-smi)
most=$(setting GPU_FREE_MIB 500)
busy='nvidia-smi was not asked'
for ((second = $(setting GPU_WAIT_SECONDS 10); second >= 0; second--)); do
  if used=$(timeout 30 "$smi" --query-gpu=index,memory.used --format=csv,noheader,nounits); then
    busy=$(awk -F', *' -v most="$most" \
      'NF != 2 || $2 !~ /^[0-9]+$/ || $2 + 0 > most + 0' <<<"${used:-none}")
  else
    busy="$smi failed"
  fi
  [[ -n $busy && $second -gt 0 ]] || break
  sleep 1
done
[[ -z $busy ]] || out_of_service "a GPU is not free (index, MiB in use): ${busy//$'\n'/; }"
printf 'job-completed: no process left, GPUs free\n'
