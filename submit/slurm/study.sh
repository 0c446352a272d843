#!/bin/bash
# Runs a scaling study, kolo scale, inside one Slurm job: its runs one after another on the job's nodes.
#
#   sbatch [OPTIONS OF SBATCH] submit/slurm/study.sh CONFIG [ARGUMENTS OF KOLO SCALE...]
#
#   sbatch -N 4 submit/slurm/study.sh configs/cifar10_resnet.yaml --ranks 1,2,4 --output results/weak
#
# Without --ranks: 1, 2, 4 and so on, up to as many as sbatch was asked for (-n), or one per node. Two minutes before the time limit
# the study stops, and the job goes into the queue again and goes on where it was. For a job of its own for each run use
# kolo scale --submit slurm. From the environment: KOLO and KOLO_REQUEUE, as for train.sh.
#SBATCH --job-name=kolo-study
#SBATCH --nodes=2
#SBATCH --exclusive
#SBATCH --time=02:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --output=kolo-study-%j.log
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
[[ ${SLURM_JOB_ID:-} ]] || { echo "study.sh: submit it: sbatch $script $*" >&2; exit 2; }
# shellcheck source=submit/slurm/job.sh
source "$(dirname "$script")/job.sh"

[[ ! ${KOLO_CONTAINER:-} ]] || refuse "kolo starts the ranks of a study itself, and can't from inside a container;" \
  "use kolo scale --submit slurm, whose jobs can"
find_kolo
count_ranks
arguments=("$@")
case " $* " in
  *" --ranks"*) ;;
  *)
    counts=1
    for ((count = 2; count <= ranks; count *= 2)); do counts+=,$count; done
    arguments+=(--ranks "$counts")
    ;;
esac
say "$job: kolo scale ${arguments[*]}, on $nodes nodes ($SLURM_JOB_NODELIST)"
run_with_signals "${kolo[@]}" scale "${arguments[@]}"
if was_stopped; then go_on_later "stopped before the time limit"; fi
exit "$status"
