# shellcheck shell=bash
# shellcheck disable=SC2154,SC2034  # variables that the scripts set or use
# What the job scripts of every scheduler share. They source it after setting `script` and `submit`, the folder of
# this file.

# To the job's log.
say() { printf '%s: %s\n' "$(basename "$script")" "$*"; }
refuse() { say "$@" >&2; exit 2; }  # nothing has been started

# The array `kolo`: the program, inside the container where there is one.
#   KOLO            the program, where it is not in PATH or in the build folder
#   KOLO_CONTAINER  an image of Apptainer (submit/apptainer/kolo.def) that holds it
find_kolo() {
  local built
  if [[ ${KOLO_CONTAINER:-} ]]; then
    [[ -e $KOLO_CONTAINER ]] || refuse "KOLO_CONTAINER=$KOLO_CONTAINER: there is no such image"
    command -v apptainer >/dev/null || refuse "KOLO_CONTAINER needs apptainer in PATH (module load apptainer?)"
    # The container's PMIx can't map the files of the node's; it asks over a socket instead.
    export PMIX_MCA_gds=hash
    local binds=$PWD
    [[ -z ${KOLO_STAGE:-} ]] || binds+=,$(scratch_folder)
    kolo=(apptainer exec --bind "$binds" --pwd "$PWD" "$KOLO_CONTAINER" "${KOLO:-kolo}")
    return
  fi
  built=$submit/../build/release/src/cli/kolo
  if [[ ${KOLO:-} ]]; then
    [[ -f $KOLO && -x $KOLO ]] || refuse "KOLO=$KOLO: there is no such program"
    kolo=("$(realpath "$KOLO")")
  elif command -v kolo >/dev/null; then
    kolo=("$(command -v kolo)")
  elif [[ -x $built ]]; then
    kolo=("$(realpath "$built")")
  else
    refuse "there is no kolo in PATH and none in $submit/../build/release; name the program with KOLO=/path/to/kolo," \
      "or a container with KOLO_CONTAINER=IMAGE"
  fi
}

# Environment of ranks on GPUs, where it is not set otherwise; choose_gpus calls it.
#   KOLO_MPICH_GPU=1  keeps the MPICH_GPU_SUPPORT_ENABLED that the site's modules have set. kolo hands no memory of GPUs to MPI, and Cray
#                     MPICH with it ends programs that are not linked with its GPU library.
# The rest is for Slingshot (interfaces hsn0, hsn1, ...): NCCL's start over it, and libfabric's settings that AWS's plugin asks for.
set_gpu_environment() {
  [[ ${KOLO_MPICH_GPU:-} == 1 ]] || export MPICH_GPU_SUPPORT_ENABLED=0
  [[ -e ${KOLO_NETWORKS:-/sys/class/net}/hsn0 ]] || return 0
  export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-hsn} NCCL_CROSS_NIC=${NCCL_CROSS_NIC:-1}
  export FI_CXI_DISABLE_HOST_REGISTER=${FI_CXI_DISABLE_HOST_REGISTER:-1} FI_MR_CACHE_MONITOR=${FI_MR_CACHE_MONITOR:-userfaultfd}
  export FI_CXI_DEFAULT_CQ_SIZE=${FI_CXI_DEFAULT_CQ_SIZE:-131072}
}

# choose_gpus [reversed]: for a script that starts a rank for each GPU. Sets `gpus`, how many of a node its ranks take, and the array
# `with_gpus`, what comes before the program. All of a node's ranks see all of its GPUs, since those that don't see each other can't use the
# links between them; rank i of a node takes the i-th of the list. `reversed`: on this machine the last GPU is the nearest to the first cores.
#   KOLO_GPUS=LIST  the GPUs of a node in the order of its ranks, for example 3,2,1,0; none: it trains on the processors
# (As a part of the command: what starts ranks sets the variable anew in theirs.)
choose_gpus() {
  local list=${KOLO_GPUS:-}
  gpus=0 with_gpus=()
  if [[ $list == none ]]; then
    with_gpus=(env CUDA_VISIBLE_DEVICES=)
    return
  fi
  if [[ ! $list ]]; then
    gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')
    ((gpus > 0)) || { say "this node has no GPU that nvidia-smi lists: training on the processors"; return; }
    if [[ ${1:-} == reversed ]]; then list=$(seq -s , $((gpus - 1)) -1 0); else list=$(seq -s , 0 $((gpus - 1))); fi
  fi
  [[ $list =~ ^(([0-9]+|GPU-[0-9a-f-]+|MIG-[0-9a-zA-Z/-]+)(,|$))+$ && $list != *, ]] ||
    refuse "KOLO_GPUS=$list: expected numbers or names of GPUs (nvidia-smi -L), for example 3,2,1,0, or none"
  gpus=$(tr ',' '\n' <<<"$list" | wc -l)
  set_gpu_environment
  # Numbers are then nvidia-smi's.
  with_gpus=(env "CUDA_VISIBLE_DEVICES=$list" CUDA_DEVICE_ORDER=PCI_BUS_ID)
}
# Scripts for processors alone.
gpus=0 with_gpus=()

# find_run ARGUMENTS OF KOLO TRAIN...: checks them, which takes a second and no nodes, and sets `settled`, the configuration
# as kolo understands it, and run_folder.
find_run() {
  local status=0
  settled=$("${kolo[@]}" train "$@" --show-config) || status=$?
  ((status == 0)) || exit "$status"
  run_folder=$(sed -n 's/^output_dir: *//p' <<<"$settled" | unquote)
}

unquote() { sed -E "s/^\"(.*)\"\$/\1/; s/^'(.*)'\$/\1/"; }

# The array `output`: kolo's ranks take the folder that was found here, whatever they know of the job.
choose_output() {
  output=(--output "$run_folder")
  local argument
  for argument in "$@"; do
    case $argument in -o* | --output | --output=*) output=() ;; esac
  done
}

# has_option NAME ARGUMENTS...: --name or --name=value among them?
has_option() {
  local argument
  for argument in "${@:2}"; do [[ $argument != "$1" && $argument != "$1="* ]] || return 0; done
  return 1
}

# choose_stop_time TIME ARGUMENTS...: sets the array `stop_time` for a job that ends then (as `date -d` takes it; nothing: nobody knows). kolo
# saves earlier than the signal asks it to where a step or a checkpoint takes longer than that leaves.
choose_stop_time() {
  local time
  stop_time=()
  if [[ ! $1 ]] || has_option --stop-before "${@:2}"; then return 0; fi
  time=$(date -d "$1" +%FT%T 2>/dev/null) || return 0
  (($(date -d "$time" +%s) <= $(date +%s))) || stop_time=(--stop-before "$time")
}

has_checkpoint() { compgen -G "$run_folder/checkpoints/step-*/manifest.json" >/dev/null; }

# belongs_to JOB: has this job begun the run in run_folder? Its log says so. A folder that holds another run is not gone
# on with: kolo moves it aside, as it always does.
belongs_to() { grep -qsF -e " in $1:" -e " in $1," "$run_folder/out.log"; }

# choose_resume JOB: sets the array `resume` for a job that was begun before.
choose_resume() {
  resume=()
  if ! belongs_to "$1"; then
    say "$run_folder holds nothing of $1: starting from the beginning"
  elif ! has_checkpoint; then
    say "$run_folder holds no checkpoint yet: starting from the beginning"
  else
    resume=(--resume)
  fi
}

# run_with_signals COMMAND...: sets `status` to its exit status. The first USR1 to this script is passed on to it, once:
# ranks take a second signal for an order to stop at once. `signal` is then USR1. TERM comes to the ranks by themselves; it
# only must not end the script before them.
run_with_signals() {
  local process='' signals=0 seen=-1 passed=0
  signal=
  trap '((++signals)); signal=USR1; pass_signal_on' USR1
  trap '((++signals))' TERM
  "$@" &
  process=$!
  pass_signal_on # one that came before this line
  # A signal ends `wait`, not the process.
  while ((seen != signals)); do
    seen=$signals status=0
    wait "$process" || status=$?
  done
  trap '' USR1 TERM
}

# Part of run_with_signals. A process that is still this script, not yet the command, would lose the signal: it has the script's trap.
pass_signal_on() {
  [[ $signal && $process ]] || return 0
  ((passed++ == 0)) || return 0
  while cmp -s "/proc/$$/cmdline" "/proc/$process/cmdline"; do sleep 0.02; done
  kill -USR1 "$process" 2>/dev/null || true
}

# Stopped by the signal that was passed on: after a checkpoint, or killed by it before kolo had got so far as to listen. Or by kolo itself,
# because the job's end is near.
was_stopped() {
  if [[ $signal == USR1 ]] && ((status == 75 || status == 138)); then return 0; fi
  [[ ${stop_time[*]:-} ]] && ((status == 75)) && tail -n 5 "$run_folder/out.log" 2>/dev/null | grep -qF "stopped by --stop-before"
}

# KOLO_STAGE=FILE or FOLDER is copied to each node's own disk before the run and removed afterwards. What the configuration
# reads from there, it reads from the copy. KOLO_STAGE_KEEP=PLACE, a folder on the nodes that outlives jobs, keeps it there: a later
# job finds it whole and copies nothing, unless files, bytes or the newest time of the original are others by then.
scratch_folder() { printf '%s\n' "${SLURM_TMPDIR:-${TMPDIR:-/tmp}}"; }

# choose_staged ORIGINAL COPY: sets the array `staged`.
choose_staged() {
  local key value
  staged=()
  for key in path train_dir valid_dir train_path valid_path; do
    value=$(sed -n "/^data:/,/^[a-z]/s/^  $key: *//p" <<<"$settled" | unquote)
    [[ $value ]] || continue
    value=$(realpath -m "$value")
    if [[ $value/ == "$1"/* ]]; then staged+=("data.$key=$2${value#"$1"}"); fi
  done
  ((${#staged[@]})) || refuse "KOLO_STAGE=$KOLO_STAGE: the configuration reads nothing there;" \
    "data.path, data.train_dir, data.valid_dir, data.train_path and data.valid_path say what it reads"
}

# describe_files PATH: "12 files, 3456 bytes", and when the newest was changed. One look at each file.
describe_files() {
  find -L "$1" -type f -printf '%s %T@\n' | awk '
    { ++files; bytes += $1; if ($2 > newest) newest = $2 }
    END { printf "%d files, %.0f bytes\n%s\n", files, bytes, newest }'
}

# stage NAME: for a folder of this name, the job's, on each node. The scripts say how to reach the nodes, by
#   copy_to_nodes FOLDER ORIGINAL COPY FILES [KEEP]    which makes the folder with the copy in it (see copy_on_node)
#   remove_from_nodes FOLDER [KEEP]    with KEEP the folder stays
stage() {
  staged=()
  [[ ${KOLO_STAGE:-} ]] || return 0
  [[ -e $KOLO_STAGE ]] || refuse "KOLO_STAGE=$KOLO_STAGE: there is no such file or folder"
  local source copy described folder
  source=$(realpath "$KOLO_STAGE")
  folder=$(scratch_folder)/kolo-$1
  choose_staged "$source" "$folder/$(basename "$source")"
  described=$(describe_files "$source") || refuse "KOLO_STAGE=$KOLO_STAGE: can't look at all of its files"
  if [[ ${KOLO_STAGE_KEEP:-} ]]; then
    folder=$KOLO_STAGE_KEEP/kolo-$(cksum <<<"$source $described" | cut -d ' ' -f 1)
    choose_staged "$source" "$folder/$(basename "$source")"
  fi
  stage_folder=$folder copy=$folder/$(basename "$source")
  say "copying $KOLO_STAGE (${described%%$'\n'*}) to $stage_folder on each node${KOLO_STAGE_KEEP:+, where it isn\'t yet}"
  copy_to_nodes "$stage_folder" "$source" "$copy" "${described%%$'\n'*}" ${KOLO_STAGE_KEEP:+keep} || {
    say "could not copy $KOLO_STAGE to $stage_folder; is there room? SLURM_TMPDIR or TMPDIR name another place" >&2
    exit 1
  }
}

unstage() {
  [[ ${stage_folder:-} ]] || return 0
  remove_from_nodes "$stage_folder" ${KOLO_STAGE_KEEP:+keep} || say "could not remove $stage_folder from every node" >&2
  stage_folder=
}

# What copies on a node: FOLDER ORIGINAL COPY FILES [KEEP]. The copy appears whole: it is made beside, in eight streams that each read and
# write many files one after another, so that small ones don't wait for each other, and its files and bytes are counted before it
# gets its name. Nodes that share the folder have one copy, and one that is there already stays.
# shellcheck disable=SC2016  # expanded on the nodes
copy_on_node='set -e -o pipefail
  mkdir -p "$1"
  if [ ! -e "$3" ]; then
    part=$(mktemp -d "$1/.part-XXXXXXXX")
    [ -z "$5" ] || trap "rm -rf -- \"$part\"" EXIT
    if [ -d "$2" ]; then
      mkdir "$part/copy" "$part/lists"
      # First, since streams that make the same folder are in the way of each other.
      (cd "$2" && find -L . -type d -print0) | (cd "$part/copy" && xargs -0 mkdir -p --)
      (cd "$2" && find -L . -type f -print0) | split -e -t "\\0" -n r/8 - "$part/lists/"
      streams=
      for list in "$part"/lists/*; do
        (set -o pipefail
          tar -C "$2" -ch --null --no-recursion --verbatim-files-from -T "$list" -f - |
            tar -C "$part/copy" --no-same-owner -xmf -) &
        streams="$streams $!"
      done
      for stream in $streams; do wait "$stream"; done
    else
      cp -L -- "$2" "$part/copy"
    fi
    files=$(find "$part/copy" -type f -printf "%s\n" | awk "{ bytes += \$1 } END { printf \"%d files, %.0f bytes\", NR, bytes }")
    if [ "$files" != "$4" ]; then
      echo "$2 has $4, but $files were copied to $1 on $(hostname)" >&2
      rm -rf -- "$part"
      exit 1
    fi
    if [ ! -e "$3" ]; then mv -T -- "$part/copy" "$3" 2>/dev/null || [ -e "$3" ]; fi
    rm -rf -- "$part"
  fi'
