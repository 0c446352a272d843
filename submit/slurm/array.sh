#!/bin/bash
# Trains one of several configurations, or with one of several settings, in each task of a Slurm job array.
#
#   sbatch --array=1-N [OPTIONS OF SBATCH] submit/slurm/array.sh LIST [ARGUMENTS OF KOLO TRAIN...]
#   sbatch --array=1-N [OPTIONS OF SBATCH] submit/slurm/array.sh --each KEY=VALUE,VALUE,... CONFIG [ARGUMENTS...]
#
#   sbatch --array=1-3 submit/slurm/array.sh --each optimizer.lr=0.001,0.002,0.004 configs/fashion_mnist.yaml
#
# LIST is a text file with a line for each task: a configuration and arguments of kolo train, divided by blanks; empty lines and
# those with # in front do not count. Results are in results/array-JOB/TASK, unless --output comes with the arguments.
# Each task is a job like one of train.sh, with the same variables, and is put into the queue again like one, but takes
# only a part of a node: one rank with four CPUs, unless sbatch is told otherwise.
#SBATCH --job-name=kolo-array
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --time=01:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --output=kolo-%A_%a.log
#SBATCH --open-mode=append
set -uo pipefail
script=${BASH_SOURCE[0]}
if [[ ${SLURM_JOB_ID:-} ]]; then
  # Slurm runs a copy of the script: where it was submitted from stands in the job.
  script=$(scontrol show job "$SLURM_JOB_ID" | sed -n 's/^ *Command=//p')
  script=${script%%.sh *} script=${script%.sh}.sh
fi
case ${1:---help} in
  -h | --help) sed -n '/^#SBATCH/q; 2,$s/^# \{0,1\}//p' "$script"; exit 0 ;;
esac
[[ ${SLURM_ARRAY_TASK_ID:-} ]] || { echo "array.sh: submit it as an array: sbatch --array=1-N $script $*" >&2; exit 2; }
# shellcheck source=submit/slurm/job.sh
source "$(dirname "$script")/job.sh"

# pick CHOICES...: this task's.
pick() {
  ((SLURM_ARRAY_TASK_ID >= 1 && SLURM_ARRAY_TASK_ID <= $#)) ||
    refuse "there is nothing for task $SLURM_ARRAY_TASK_ID: there are $#, so submit with --array=1-$#"
  printf '%s\n' "${!SLURM_ARRAY_TASK_ID}"
}

if [[ $1 == --each ]]; then
  [[ $# -ge 3 && $2 == *=* ]] || refuse "--each takes KEY=VALUE,VALUE,... and a configuration after it"
  IFS=, read -ra values <<<"${2#*=}"
  value=$(pick "${values[@]}") || exit
  arguments=("${@:3}" "${2%%=*}=$value")
else
  [[ -f $1 ]] || refuse "$1: there is no such list"
  mapfile -t lines < <(grep -vE '^[[:space:]]*(#|$)' "$1")
  line=$(pick "${lines[@]}") || exit
  read -ra arguments <<<"$line"
  arguments+=("${@:2}")
fi
case " ${arguments[*]} " in
  *" --output"* | *" -o"*) ;;
  *) arguments+=(--output "results/array-$SLURM_ARRAY_JOB_ID/$SLURM_ARRAY_TASK_ID") ;;
esac
say "task $SLURM_ARRAY_TASK_ID: kolo train ${arguments[*]}"
train "${arguments[@]}"
