#!/bin/bash
# Runs a scaling study, kolo scale, inside one PBS job: its runs one after another on the job's nodes. It has never run on Polaris, nor on
# another machine with PBS.
#
#   qsub -V [OPTIONS OF QSUB] -- "$PWD/submit/pbs/study.sh" CONFIG [ARGUMENTS OF KOLO SCALE...]
#
#   qsub -V -A PROJECT -q debug -l select=4:system=polaris -l place=scatter -l walltime=1:00:00 -l filesystems=home:eagle -j oe \
#     -- "$PWD/submit/pbs/study.sh" configs/cifar10_resnet.yaml --ranks 1,2,4 --output results/weak
#
# Without --ranks: 1, 2, 4 and so on, up to one for each GPU of the job's nodes, or mpiprocs of them, or one per node where there are no
# GPUs. Name the folder (--output): a job that goes on has to find it. Two minutes before the time limit the study stops (exit status 75);
# with KOLO_RESUBMIT a new job goes on where it was, else the same command does. For a job of its own for each run use
# kolo scale --submit pbs. From the environment: KOLO, KOLO_GPUS, KOLO_RANKS_PER_NODE, KOLO_RESUBMIT and KOLO_STOP_BEFORE, as for polaris.sh.
#PBS -N kolo-study
#PBS -j oe
#PBS -l select=2
#PBS -l place=scatter
#PBS -l walltime=2:00:00
set -uo pipefail
script=${BASH_SOURCE[0]}
case ${1:---help} in
  -h | --help) sed -n '/^#PBS/q; 2,$s/^# \{0,1\}//p' "$script"; exit 0 ;;
esac
[[ ${PBS_JOBID:-} ]] || { echo "study.sh: submit it: qsub -- $(realpath "$script") $*" >&2; exit 2; }
# shellcheck source=submit/pbs/job.sh
source "$(dirname "$script")/job.sh"

[[ ! ${KOLO_CONTAINER:-} ]] || refuse "kolo starts the ranks of a study itself, and can't from inside a container;" \
  "use kolo scale --submit pbs, whose jobs can"
has_option -o "$@" || has_option --output "$@" || refuse "name the study's folder, with --output: a job that goes on has to find it"
find_kolo
choose_gpus reversed
count_ranks
arguments=("$@")
if ! has_option --ranks "$@"; then
  counts=1
  for ((count = 2; count <= ranks; count *= 2)); do counts+=,$count; done
  arguments+=(--ranks "$counts")
fi
say "$job: kolo scale ${arguments[*]}, on $nodes nodes${with_gpus[*]:+, ${with_gpus[1]}}"
trap '[[ ! ${timer:-} ]] || kill "$timer" 2>/dev/null' EXIT
watch_time
run_with_signals "${with_gpus[@]}" "${kolo[@]}" scale "${arguments[@]}"
if was_stopped; then submit_again "" "${arguments[@]}"; fi
exit "$status"
