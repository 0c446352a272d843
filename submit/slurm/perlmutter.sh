#!/bin/bash
# Trains one configuration on Perlmutter's GPU nodes (four A100 and 64 cores each), as gpu.sh does. It has never run there.
#
#   sbatch -A PROJECT -q regular [OPTIONS OF SBATCH] submit/slurm/perlmutter.sh CONFIG [ARGUMENTS OF KOLO TRAIN...]
#
#   sbatch -A PROJECT -q regular -N 2 submit/slurm/perlmutter.sh configs/unet3d.yaml --config bs512_opt --output results/two-nodes
#   sbatch -A PROJECT -q regular -C 'gpu&hbm80g' submit/slurm/perlmutter.sh configs/imagenet_resnet.yaml training.batch_size=256
#
# The first rank takes the last GPU, which there is the nearest to the first cores: KOLO_GPUS is 3,2,1,0 unless it is set.
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
gpu_order=reversed
own=$0
[[ ! ${SLURM_JOB_ID:-} ]] || own=$(scontrol show job "$SLURM_JOB_ID" | sed -n 's/^ *Command=//p')
# shellcheck source=submit/slurm/gpu.sh
source "$(dirname "${own%%.sh *}")/gpu.sh"
