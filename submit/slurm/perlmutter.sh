#!/bin/bash
# Trains one configuration on GPU nodes of a Slurm job, as on NERSC's Perlmutter (four A100 a node), one rank for each GPU. It has never run on
# Perlmutter, nor on another machine with GPUs.
#
#   sbatch [OPTIONS OF SBATCH] submit/slurm/perlmutter.sh CONFIG [ARGUMENTS OF KOLO TRAIN...]
#
#   sbatch -A PROJECT -q regular -N 2 submit/slurm/perlmutter.sh configs/unet3d.yaml --config bs512_opt --output results/two-nodes
#   sbatch -A PROJECT -q regular -C 'gpu&hbm80g' submit/slurm/perlmutter.sh configs/imagenet_resnet.yaml training.batch_size=256
#
# Every rank sees all GPUs of its node, which otherwise could not use the links between them, and is bound to a quarter of its cores; the
# first rank takes the last GPU, which on Perlmutter is the nearest to the first cores. kolo has to be built for GPUs (docs/use/gpu.md).
# Before the time limit, after a preemption and on failures it does as train.sh does, and it takes the same variables, and
#   KOLO_GPUS=LIST       a node's GPUs in the order of its ranks: 3,2,1,0 of four, unless it is set; none: processors alone
#SBATCH --job-name=kolo
#SBATCH --constraint=gpu
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=32
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
[[ ${SLURM_JOB_ID:-} ]] || { echo "perlmutter.sh: submit it: sbatch $script $*" >&2; exit 2; }
# shellcheck source=submit/slurm/job.sh
source "$(dirname "$script")/job.sh"

choose_gpus reversed
train "$@"
