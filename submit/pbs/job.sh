# shellcheck shell=bash
# shellcheck disable=SC2154,SC2034  # variables that the scripts set or use
# What the scripts for PBS share: they source it, inside the job. Sets `job`, `nodes`, `per_node`, `ranks` and `cpus`.
submit=$(dirname "$(dirname "${BASH_SOURCE[0]}")")
# shellcheck source=submit/common.sh
source "$submit/common.sh"

job="PBS job $PBS_JOBID"
cd "${PBS_O_WORKDIR:-$PWD}" || exit 1

physical_cores() { lscpu --parse=CORE,SOCKET | grep -v '^#' | sort -u | wc -l; }

# One rank for each line of the list of nodes: one per node, or mpiprocs of the request; where the script has chosen GPUs, one for each of
# them unless there are mpiprocs. KOLO_RANKS_PER_NODE overrules it. A rank gets its share of its node's cores.
count_ranks() {
  nodes=$(sort -u "$PBS_NODEFILE" | wc -l)
  ranks=$(wc -l <"$PBS_NODEFILE")
  ((gpus == 0 || ranks != nodes)) || ranks=$((nodes * gpus))
  [[ ! ${KOLO_RANKS_PER_NODE:-} ]] || ranks=$((nodes * KOLO_RANKS_PER_NODE))
  per_node=$(((ranks + nodes - 1) / nodes))
  cpus=${OMP_NUM_THREADS:-$(($(physical_cores) / per_node))}
  ((cpus > 0)) || cpus=1
}

# How long this job still runs; nothing where nobody says.
seconds_left() {
  local limit
  limit=$(qstat -f "$PBS_JOBID" 2>/dev/null | sed -n 's/^ *Resource_List.walltime = //p')
  [[ $limit =~ ^([0-9]+):([0-9]+):([0-9]+)$ ]] || return 0
  echo $((10#${BASH_REMATCH[1]} * 3600 + 10#${BASH_REMATCH[2]} * 60 + 10#${BASH_REMATCH[3]} - SECONDS))
}

# PBS has no signal before the end: the script sends itself one, KOLO_STOP_BEFORE seconds (120) before.
watch_time() {
  local left
  left=$(seconds_left)
  [[ $left ]] || { say "nobody says when this job ends, so it is not stopped before"; return; }
  left=$((left - ${KOLO_STOP_BEFORE:-120}))
  (
    trap 'kill $!; exit' TERM
    sleep "$((left > 0 ? left : 0))" &
    wait
    kill -USR1 $$
  ) &
  timer=$!
}

# submit_again HOW ARGUMENTS...: a new job that goes on, where the user has said how to ask for one. HOW: what the user must give otherwise.
submit_again() {
  local how=$1
  shift
  if [[ ! ${KOLO_RESUBMIT:-} ]]; then
    say "stopped before the time limit; submit it again$how (KOLO_RESUBMIT does this, see --help)"
    return
  fi
  say "stopped before the time limit; submitting it again: qsub $KOLO_RESUBMIT"
  export KOLO_RESUBMIT
  # shellcheck disable=SC2086  # options, divided by blanks
  qsub $KOLO_RESUBMIT -V -- "$(realpath "$script")" "$@" || say "qsub refuses; submit it again$how" >&2
}

# go_on_later ARGUMENTS...: of a training, which resumes.
go_on_later() {
  local -a arguments=("$@")
  [[ ${arguments[-1]} == --resume ]] || arguments+=(--resume) # the last one counts: from the newest checkpoint
  submit_again " with --resume" "${arguments[@]}"
}

copy_to_nodes() { "${each[@]}" bash -c "$copy_on_node" stage "$@"; }
remove_from_nodes() { [[ ${2:-} ]] || "${each[@]}" rm -rf -- "$1"; }

# train ARGUMENTS OF KOLO TRAIN...: ends the script with kolo's exit status. The script may have chosen GPUs, and has defined
# choose_launcher, which sets the arrays `launcher` (for the ranks) and `each` (for one process on each node) from what count_ranks found.
train() {
  find_kolo
  count_ranks
  choose_launcher
  find_run "$@"
  choose_output "$@"
  local left
  left=$(seconds_left)
  choose_stop_time "${left:+@$(($(date +%s) + left))}" "$@"
  resume=()
  if belongs_to "$job"; then choose_resume "$job"; fi  # a job that PBS has started again
  trap 'unstage; [[ ! ${timer:-} ]] || kill "$timer" 2>/dev/null' EXIT
  stage "$PBS_JOBID"
  say "$job: $ranks ranks on $nodes nodes, $cpus cores each${with_gpus[*]:+, ${with_gpus[1]}}; run folder $run_folder"
  export OMP_NUM_THREADS=$cpus OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-$cpus}
  watch_time
  local -a number=()
  # With --max-restarts kolo starts the ranks, by the same mpiexec or mpirun, and again on the nodes that are left.
  if has_option --max-restarts "$@"; then
    launcher=()
    if ! has_option -n "$@" && ! has_option --ranks "$@"; then number=(-n "$ranks"); fi
  fi
  run_with_signals "${launcher[@]}" "${with_gpus[@]}" "${kolo[@]}" train "$@" "${number[@]}" "${output[@]}" "${stop_time[@]}" "${staged[@]}" "${resume[@]}"
  if was_stopped; then
    unstage
    if has_checkpoint && belongs_to "$job"; then
      go_on_later "$@" "${output[@]}"
    else
      say "stopped before there was a checkpoint: give the job more time, or checkpoints (checkpoint.every_epochs, every_steps)" >&2
    fi
  fi
  exit "$status"
}
