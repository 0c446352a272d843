# shellcheck shell=bash
# What the Slurm scripts share: they source it, inside the job. Sets `job`, `nodes`, `ranks` and `cpus`.
submit=$(dirname "$(dirname "${BASH_SOURCE[0]}")")
# shellcheck source=submit/common.sh
source "$submit/common.sh"

# As kolo names it in its log, without the restarts.
job="Slurm job $SLURM_JOB_ID"
[[ -z ${SLURM_ARRAY_TASK_ID:-} ]] || job="Slurm job ${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
restarts=${SLURM_RESTART_COUNT:-0}

# What was asked for (-n, --ntasks-per-node), or else one rank per node, or per GPU where the script has chosen GPUs: how many there are changes the training (the batch of
# all ranks, the learning rate), so it does not depend on how many CPUs a node happens to have. A rank gets the CPUs
# that were asked for (-c), or its share of its node's.
count_ranks() {
  nodes=$SLURM_JOB_NUM_NODES
  ranks=${SLURM_NTASKS:-$((nodes * ${SLURM_NTASKS_PER_NODE:-$((gpus > 0 ? gpus : 1))}))}
  per_node=$(((ranks + nodes - 1) / nodes))
  cpus=${SLURM_CPUS_PER_TASK:-$((SLURM_CPUS_ON_NODE / per_node))}
  ((cpus > 0)) || cpus=1
}

# A step beside the ranks keeps the copy as long as it runs, so that it is removed however the job ends: a job that is cancelled
# can't start another step for it. srun passes USR1 on, while at TERM it would kill the step.
copy_to_nodes() {
  local ready
  ready=$(mktemp)
  srun --overlap --quiet --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 --cpus-per-task=1 --mem=0 --mpi=none \
    bash -c "[ \"\$5\" ] || trap 'rm -rf -- \"\$1\"' EXIT
      trap 'kill \$!; exit 0' TERM USR1
      $copy_on_node
      echo ready
      sleep infinity &
      wait" stage "$@" >"$ready" &
  keeper=$!
  while (($(wc -l <"$ready") < nodes)) && kill -0 "$keeper" 2>/dev/null; do sleep 0.2; done
  local count
  count=$(wc -l <"$ready")
  rm -f "$ready"
  ((count == nodes))
}

remove_from_nodes() {
  kill -USR1 "$keeper" 2>/dev/null
  wait "$keeper"
}

# How srun introduces the ranks: Open MPI takes pmix, MPICH and what is made of it pmi2; Cray's own cray_shasta and
# ParaStation's pspmi (JUPITER), where this Slurm has them. Libraries of MPICH's kin have the ABI version 12: libmpich.so.12, Cray's libmpi_gnu_91.so.12 and the like, Intel's
# libmpi.so.12; Open MPI's are libmpi.so.40. KOLO_MPI overrules it (a container's MPI can't be seen from here and is taken to be
# Open MPI, as in kolo.def).
srun_mpi() {
  local libraries
  libraries=$(ldd "${kolo[0]}" 2>/dev/null | grep -oE 'libmpi(ch)?(_[a-z0-9_]+)?\.so\.[0-9]+')
  if [[ ${KOLO_MPI:-} ]]; then
    printf '%s\n' "$KOLO_MPI"
  elif grep -qE '^libmpi_.*\.so\.12$' <<<"$libraries" && srun --mpi=list 2>&1 | grep -qw cray_shasta; then
    echo cray_shasta
  elif grep -qE '^libmpi\.so\.12$' <<<"$libraries" && srun --mpi=list 2>&1 | grep -qw pspmi; then
    echo pspmi
  elif grep -qE '\.so\.12$' <<<"$libraries"; then
    echo pmi2
  else
    echo pmix
  fi
}

# Each rank to cores of its own, where Slurm binds at all; it refuses the option otherwise.
binding() {
  if scontrol show config | grep -q '^TaskPlugin .*affinity'; then echo --cpu-bind=cores; fi
}

# go_on_later WHY: this job again, from its checkpoint. Ends the script when Slurm takes it.
go_on_later() {
  [[ ${KOLO_REQUEUE:-1} != 0 ]] || { say "$1; KOLO_REQUEUE=0, so it is not put into the queue again"; return; }
  say "$1; putting $job into the queue again"
  trap 'exit "$status"' TERM
  if scontrol requeue "$SLURM_JOB_ID"; then
    sleep 60 &
    wait
  else
    say "Slurm refuses; submit it again with --resume" >&2
  fi
}

# Has a node of the job been lost? With --no-kill the job goes on without it.
node_is_lost() { sinfo -h -N -n "$SLURM_JOB_NODELIST" -o %T 2>/dev/null | grep -qE '^(down|fail)|\*$'; }

# start_ranks ARGUMENTS...: by srun; or by kolo, which then starts them again on the nodes that are left (--max-restarts).
start_ranks() {
  local -a bound
  mapfile -t bound < <(binding)
  if has_option --max-restarts "$@"; then
    [[ ! ${KOLO_CONTAINER:-} ]] || refuse "--max-restarts: kolo starts the ranks with srun, which it can't from inside of a container"
    [[ ! ${bound[*]} ]] || export SLURM_CPU_BIND=cores
    ((gpus == 0)) || export SLURM_GPU_BIND=none
    local -a number=(-n "$ranks")
    if has_option -n "$@" || has_option --ranks "$@"; then number=(); fi
    KOLO_MPI=$(srun_mpi) SLURM_CPUS_PER_TASK=$cpus run_with_signals "${with_gpus[@]}" "${kolo[@]}" train "$@" "${number[@]}"
    return
  fi
  ((gpus == 0)) || bound+=(--gpu-bind=none) # each rank sees all of its node's
  # Ranks of kolo end together, whatever their status. The first of them that Slurm sees must not have the others killed,
  # but a rank that dies ends all of them.
  run_with_signals srun --mpi="$(srun_mpi)" --nodes="$nodes" --ntasks="$ranks" --ntasks-per-node="$per_node" \
    --cpus-per-task="$cpus" "${bound[@]}" --kill-on-bad-exit=0 --wait=10 --quiet \
    "${with_gpus[@]}" "${kolo[@]}" train "$@"
}

# train ARGUMENTS OF KOLO TRAIN...: ends the script with kolo's exit status.
train() {
  find_kolo
  count_ranks
  find_run "$@"
  resume=()
  ((restarts == 0)) || choose_resume "$job"
  trap unstage EXIT
  stage "$SLURM_JOB_ID"
  say "$job: $ranks ranks on $nodes nodes ($SLURM_JOB_NODELIST), $cpus CPUs each${with_gpus[*]:+, ${with_gpus[1]}}; run folder $run_folder"
  export OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-${OMP_NUM_THREADS:-$cpus}}
  choose_output "$@"
  choose_stop_time "$(squeue -h -j "$SLURM_JOB_ID" -o %e 2>/dev/null | grep -E '^[0-9]{4}-')" "$@"
  start_ranks "$@" "${output[@]}" "${stop_time[@]}" "${staged[@]}" "${resume[@]}"
  if ((status != 0 && status != 2)) && ! was_stopped && node_is_lost; then
    unstage
    go_on_later "a node was lost"
  fi
  if was_stopped; then
    unstage
    if has_checkpoint && belongs_to "$job"; then
      go_on_later "stopped before the time limit"
    else
      say "stopped before there was a checkpoint: give the job more time, or checkpoints (checkpoint.every_epochs, every_steps)" >&2
    fi
  fi
  exit "$status"
}
