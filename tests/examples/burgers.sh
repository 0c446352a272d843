#!/bin/bash
# burgers.sh PROGRAM RANKS: half the ranks train, the others compute, all of them with the same weights at the end. The learned flux
# is five times better than the upwind one. Restarted from what was saved, the run has the same bits.
set -euo pipefail
program=$1 ranks=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "burgers.sh: $*" >&2; exit 1; }
solvers=$((ranks > 1 ? ranks / 2 : 1))
configuration=$here/../../examples/simulations/$([[ $ranks == 1 ]] && echo burgers_alone || echo burgers).yaml
cd "$folder"

output=$("$here/../support/mpirun" "$ranks" "$program" "$configuration")
echo "$output"
(($(grep -c '^burgers: solver [0-9]*, checksum [0-9]' <<<"$output") == solvers)) || fail "expected $solvers solvers: $output"
checksum=$(sed -n 's/^burgers: solver .*checksum //p' <<<"$output" | sort -u)
[[ $(wc -l <<<"$checksum") == 1 && $checksum != 0 ]] || fail "the solvers' weights differ: $output"
[[ $output =~ "burgers: error "([0-9.]+)" % learned, "([0-9.]+)" % upwind" ]] || fail "unexpected output: $output"
awk -v learned="${BASH_REMATCH[1]}" -v upwind="${BASH_REMATCH[2]}" 'BEGIN { exit !(learned > 0 && learned < upwind / 5) }' \
  || fail "the learned flux is not five times better: $output"
awk '!/^#/ && NF == 3 { errors++ } !/^#/ && NF == 7 { cells++ } END { exit errors != 1000 || cells != 32 }' burgers.txt || fail "wrong burgers.txt"
(($(ls burgers.*.restart | wc -l) == solvers)) || fail "wrong restart files: $(ls)"

mv burgers.txt first.txt
again=$("$here/../support/mpirun" "$ranks" "$program" "$configuration" restart)
[[ $(sort <<<"$again") == "$(sort <<<"$output")" ]] || fail "restarted it says something else: $again"
cmp first.txt burgers.txt || fail "restarted it has other bits"
