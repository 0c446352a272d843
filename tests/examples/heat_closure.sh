#!/bin/bash
# heat_closure.sh PROGRAM RANKS: on 32 cells an edge the plate with the learned conductivity ends within 2 % of the one with the
# material's law, the plate with the mean conductivity more than 10 % away; the file says the same, and has all that pictures need.
set -euo pipefail
program=$1 ranks=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "heat_closure.sh: $*" >&2; exit 1; }

output=$("$here/../support/mpirun" "$ranks" "$program" "$here/../../examples/simulations/heat_closure.yaml" 32 "$folder/heat.txt")
echo "$output"
[[ $output =~ "heat_closure on $ranks ranks: error "([0-9.]+)" % with learned k, "([0-9.]+)" % with mean k" ]] || fail "unexpected output: $output"
awk -v learned="${BASH_REMATCH[1]}" -v mean="${BASH_REMATCH[2]}" 'BEGIN { exit !(learned <= 2 && mean >= 10) }' \
  || fail "expected at most 2 % and at least 10 %"

# block NAME: the lines of one block.
block() { awk -v name="# $1:" '/^#/ { inside = index($0, name) == 1; next } inside && NF' "$folder/heat.txt"; }
block errors | awk 'NF != 3 || $1 <= 0.5 || $1 > 1 { bad = 1 } END { exit bad || NR < 50 || $2 > 0.02 || $3 < 0.1 }' || fail "wrong errors"
block closure | awk '{ off = $3 - $2; sum += off * off } END { exit NR != 101 || sqrt(sum / NR) > 0.05 }' || fail "k(u) was not learned"
block field | awk '{ learned += ($4 - $3)^2; mean += ($5 - $3)^2; all += $3^2 }
  END { exit NR != 32 * 32 || all == 0 || sqrt(learned / all) > 0.02 || sqrt(mean / all) < 0.1 }' || fail "wrong fields"
