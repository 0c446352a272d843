#!/bin/bash
# Trains one configuration on GPU nodes of a Slurm job, one rank for each GPU. It has never run on a machine with GPUs.
#
#   sbatch --gpus-per-node=GPUS [OPTIONS OF SBATCH] submit/slurm/gpu.sh CONFIG [ARGUMENTS OF KOLO TRAIN...]
#
#   sbatch --gpus-per-node=4 -N 2 submit/slurm/gpu.sh configs/unet3d.yaml --config bs512_opt --output results/two-nodes
#
# Every rank sees all GPUs of its node, which otherwise could not use the links between them, and is bound to its part of the node's cores.
# kolo has to be built for GPUs (docs/use/gpu.md). Before the time limit, after a preemption and on failures it does as train.sh does, and it
# takes the same variables, and
#   KOLO_GPUS=LIST       a node's GPUs in the order of its ranks, as nvidia-smi numbers them: 0,1,2,3 of four, unless it is set; none:
#                        processors alone
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
script=$0 gpu_order=${gpu_order:-}
if [[ ${SLURM_JOB_ID:-} ]]; then
  # Slurm runs a copy of the script: where it was submitted from stands in the job.
  script=$(scontrol show job "$SLURM_JOB_ID" | sed -n 's/^ *Command=//p')
  script=${script%%.sh *} script=${script%.sh}.sh
fi
case ${1:---help} in
  -h | --help) sed -n '/^#SBATCH/q; 2,$s/^# \{0,1\}//p' "$script"; exit 0 ;;
esac
[[ ${SLURM_JOB_ID:-} ]] || { echo "$(basename "$script"): submit it: sbatch $script $*" >&2; exit 2; }
# shellcheck source=submit/slurm/job.sh
source "$(dirname "$script")/job.sh"

choose_gpus $gpu_order
train "$@"
