#!/bin/bash
# program.sh KOLO_SIMULATE KOLO CONFIGURATION: a study on one rank, predictions for more, and what is refused.
set -euo pipefail
simulate=$1 kolo=$2 config=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "program.sh: $*" >&2; exit 1; }

export OMP_NUM_THREADS=1
"$kolo" scale "$config" --ranks 1 -o "$folder/study" data.n_train=128 data.n_valid=32 >"$folder/log" || { cat "$folder/log"; fail "kolo scale failed"; }
said=$("$simulate" "$folder/study" --ranks 64,1024 --ranks-per-node 2 --network slingshot-11 --kolo "$kolo")
echo "$said"
[[ $said == *"Predicted with the network slingshot-11"* && $said == *" 1024 "* ]] || fail "no predictions"
grep -q '"ranks": 1024' "$folder/study/predictions.json" || fail "no predictions.json"

refused() { "$simulate" "$@" >"$folder/said" 2>&1 && fail "took $*"; [[ $(<"$folder/said") == *"$words"* ]] || fail "$*: $(<"$folder/said")"; }
words=--network refused "$folder/study" --ranks 1000000 --kolo "$kolo"
words=string refused "$folder/study" --ranks 8 --network string --kolo "$kolo"
words=hierarchical refused "$folder/study" --ranks 8 --all-reduce star --kolo "$kolo"
words=study.json refused "$folder/nothing" --ranks 8
words="no file has a profile" refused --ranks 8
