#!/bin/bash
# example.sh MPIRUN PROGRAM: the transformer learns the same, whether one rank has its layers or two share them.
set -euo pipefail
mpirun=$1 program=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
loss_of() { sed -n 's/^step 40  loss \([0-9.]*\) .*/\1/p' <<<"$1"; }
alone=$(OMP_NUM_THREADS=1 "$program" 1 40)
shared=$("$mpirun" 2 "$program" 2 40)
echo "$shared"
awk -v one="$(loss_of "$alone")" -v two="$(loss_of "$shared")" 'BEGIN { exit !(one > 0 && two > one - 0.01 && two < one + 0.01 && two < 3) }' \
  || { echo "it learns too little, or something else on two ranks: $alone $shared" >&2; exit 1; }
[[ -s transformer.pt ]] || { echo "no transformer.pt was saved" >&2; exit 1; }
