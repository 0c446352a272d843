#!/bin/bash
# Trains one configuration on the nodes of a PBS job, as on ALCF's Polaris (four A100 a node), one rank for each GPU: the mpiexec of PALS
# starts the ranks, or else that of Open MPI or MPICH. It has never run on Polaris, nor on another machine with GPUs.
#
#   qsub -V [OPTIONS OF QSUB] -- "$PWD/submit/pbs/polaris.sh" CONFIG [ARGUMENTS OF KOLO TRAIN...]
#
#   qsub -V -A PROJECT -q debug -l select=2:system=polaris -l place=scatter -l walltime=1:00:00 -l filesystems=home:eagle -j oe \
#     -- "$PWD/submit/pbs/polaris.sh" configs/cifar10_resnet.yaml --output results/two-nodes
#
# Starts a rank for each GPU of a node, or mpiprocs of them, which share the node's cores. The first rank takes the last GPU, which on
# Polaris is the nearest to the first cores. kolo has to be built for GPUs (docs/use/gpu.md): what is not trains on the processors. Two
# minutes before the time limit kolo saves a checkpoint and stops (exit status 75); with KOLO_RESUBMIT a new job goes on from
# there, else the same command with --resume and --output. With --max-restarts TIMES (and --min-ranks RANKS) among the arguments a run goes on
# within the job, on the nodes that are left (where qsub was told to keep it: -W tolerate_node_failures=all). A job that PBS starts again goes on from its newest checkpoint. The exit status is kolo's.
#
# Load the modules that kolo needs before submitting, and let qsub hand over the environment (-V). From it:
#   KOLO=FILE              the program, where it is neither in PATH nor in this repository's build/release
#   KOLO_CONTAINER=FILE    an image of Apptainer that holds it (submit/apptainer/kolo.def)
#   KOLO_STAGE=PATH        a file or folder to copy to each node's own disk (TMPDIR or /tmp) and read there
#   KOLO_STAGE_KEEP=PLACE  the copy stays in this folder of the nodes, and later jobs read it
#   KOLO_GPUS=LIST         a node's GPUs in the order of its ranks: 3,2,1,0 of four, unless it is set; none: processors alone,
#                          one rank per node
#   KOLO_RANKS_PER_NODE=N  instead of mpiprocs
#   KOLO_RESUBMIT=OPTIONS  of qsub, for the job that goes on: '-A PROJECT -q debug -l select=2:system=polaris -l walltime=1:00:00'
#   KOLO_STOP_BEFORE=120   seconds before the time limit
#PBS -N kolo
#PBS -j oe
#PBS -l select=1
#PBS -l place=scatter
#PBS -l walltime=1:00:00
set -uo pipefail
script=${BASH_SOURCE[0]}
case ${1:---help} in
  -h | --help) sed -n '/^#PBS/q; 2,$s/^# \{0,1\}//p' "$script"; exit 0 ;;
esac
[[ ${PBS_JOBID:-} ]] || { echo "polaris.sh: submit it: qsub -- $(realpath "$script") $*" >&2; exit 2; }
# shellcheck source=submit/pbs/job.sh
source "$(dirname "$script")/job.sh"

choose_launcher() {
  local program version
  program=$(command -v mpiexec) || refuse "there is no mpiexec in PATH; load the module of the MPI that kolo is built with"
  version=$("$program" --version 2>&1)
  case "$(realpath "$program") $version" in
    */pals/*)
      launcher=("$program" -n "$ranks" --ppn "$per_node" --depth "$cpus" --cpu-bind depth)
      each=("$program" -n "$nodes" --ppn 1)
      ;;
    *"Open MPI"* | *OpenRTE*)
      launcher=("$program" --hostfile "$PBS_NODEFILE" -n "$ranks" --map-by "ppr:$per_node:node:PE=$cpus" --bind-to core
        -x OMP_NUM_THREADS -x OPENBLAS_NUM_THREADS)
      each=("$program" --hostfile "$PBS_NODEFILE" -n "$nodes" --map-by ppr:1:node)
      ;;
    *)
      launcher=("$program" -f "$PBS_NODEFILE" -n "$ranks" -ppn "$per_node" -bind-to "core:$cpus")
      each=("$program" -f "$PBS_NODEFILE" -n "$nodes" -ppn 1)
      ;;
  esac
}

choose_gpus reversed
train "$@"
