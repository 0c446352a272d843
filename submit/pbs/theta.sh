#!/bin/bash
# Trains one configuration on the nodes of a job of a Cray with ALPS, as ALCF's Theta was: aprun starts the ranks. The job may be
# Cobalt's or PBS's.
#
#   qsub -A PROJECT -q debug-cache-quad -n NODES -t MINUTES submit/pbs/theta.sh CONFIG [ARGUMENTS OF KOLO TRAIN...]    (Cobalt)
#   qsub -V [OPTIONS OF QSUB] -- "$PWD/submit/pbs/theta.sh" CONFIG [ARGUMENTS OF KOLO TRAIN...]                        (PBS)
#
# Starts one rank per node, which computes with all its cores, one thread per core, or KOLO_RANKS_PER_NODE. All else is as for
# polaris.sh.
#COBALT -n 1
#COBALT -t 60
#COBALT --attrs mcdram=cache:numa=quad
set -uo pipefail
script=${BASH_SOURCE[0]}
case ${1:---help} in
  -h | --help) sed -n '/^#COBALT/q; 2,$s/^# \{0,1\}//p' "$script"; exit 0 ;;
esac
[[ ${PBS_JOBID:-}${COBALT_JOBID:-} ]] || { echo "theta.sh: submit it: qsub ... $script $*" >&2; exit 2; }
# shellcheck source=submit/pbs/job.sh
source "$(dirname "$script")/job.sh"

choose_launcher() {
  command -v aprun >/dev/null || refuse "there is no aprun in PATH; is this a Cray with ALPS? Otherwise use polaris.sh"
  launcher=(aprun -n "$ranks" -N "$per_node" -d "$cpus" -j 1 --cc depth -e "OMP_NUM_THREADS=$cpus")
  each=(aprun -n "$nodes" -N 1)
}

train "$@"
