#!/bin/bash
# advection.sh PROGRAM RANKS: the network learns the divergence, whose mean square is 4, to an error below 1e-6. (PyTorch reaches the same with
# this network and optimizer.) The solver with the network is then five times better, or more, than the one of second order.
set -euo pipefail
program=$1 ranks=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "advection.sh: $*" >&2; exit 1; }

output=$("$here/../support/mpirun" "$ranks" "$program" "$here/../../examples/simulations/advection.yaml" 4000 "$folder/advection.txt")
echo "$output"
[[ $output =~ "advection on $ranks ranks: validation MSE "" "*([-+.0-9Ee]+)", error" ]] || fail "unexpected output: $output"
awk -v mse="${BASH_REMATCH[1]}" 'BEGIN { exit !(mse > 0 && mse < 1e-6) }' || fail "the MSE is not below 1e-6"
awk '!/^#/ && NF == 4 { errors++; second = $3; network = $4 } !/^#/ && NF == 5 { cells++; sum += ($5 - $4)^2; all += $4^2 }
  END { exit errors != 1000 || cells != 1024 || second < 0.1 || network * 5 > second || all < 1024 || sum / all > 1e-6 }' "$folder/advection.txt" \
  || fail "wrong errors or fields"
