#!/bin/bash
# Trains one configuration on the nodes of a Slurm job.
#
#   sbatch [OPTIONS OF SBATCH] submit/slurm/train.sh CONFIG [ARGUMENTS OF KOLO TRAIN...]
#
#   sbatch -N 2 submit/slurm/train.sh configs/cifar10_resnet.yaml --output results/two-nodes
#   sbatch -N 2 --ntasks-per-node=4 -c 8 -t 4:00:00 submit/slurm/train.sh configs/unet3d.yaml --config full
#
# Starts one rank per node, with all its CPUs, unless sbatch is told otherwise (-n, --ntasks-per-node, -c). Two minutes before
# the time limit kolo saves a checkpoint, and the job goes into the queue again and goes on from there, until it is done.
# A job that Slurm puts into the queue again by itself (preemption, a lost node) goes on from its newest checkpoint, or
# starts from the beginning where there is none. With --max-restarts TIMES (and --min-ranks RANKS) among the arguments a run goes on within the
# job, on the nodes that are left; without, a job that has lost a node goes into the queue again. Everything is in one log. The exit status is kolo's: 0 done, 1 failed, 2 wrong
# input, 75 stopped.
#
# From the environment of sbatch:
#   KOLO=FILE            the program, where it is neither in PATH nor in this repository's build/release
#   KOLO_CONTAINER=FILE  an image of Apptainer that holds it (submit/apptainer/kolo.def)
#   KOLO_STAGE=PATH      a file or folder to copy to each node's own disk (SLURM_TMPDIR, TMPDIR or /tmp) and read there
#   KOLO_STAGE_KEEP=PLACE  the copy stays in this folder of the nodes, and later jobs read it
#   KOLO_REQUEUE=0       stop before the time limit and do not go on
#   KOLO_MPI=TYPE        srun's --mpi: pmix unless kolo uses MPICH, then pmi2
#SBATCH --job-name=kolo
#SBATCH --nodes=1
#SBATCH --exclusive
#SBATCH --time=01:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --no-kill
#SBATCH --output=kolo-%j.log
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
[[ ${SLURM_JOB_ID:-} ]] || { echo "train.sh: submit it: sbatch $script $*" >&2; exit 2; }
# shellcheck source=submit/slurm/job.sh
source "$(dirname "$script")/job.sh"

train "$@"
