#!/bin/bash
# size.sh FOLDER: each example of a network inside a simulation has less than 200 lines, and at most 15 about kolo, which are marked.
set -euo pipefail
for source in "$1"/*.{cpp,c,f90}; do
  [[ -f $source ]] || continue
  lines=$(wc -l <"$source") marked=$(grep -cE '(//|/\*|!) kolo( \*/)?$' "$source")
  echo "${source##*/}: $lines lines, $marked about kolo"
  ((lines < 200 && marked > 0 && marked <= 15)) || { echo "size.sh: expected less than 200 lines, 1 to 15 of them marked" >&2; exit 1; }
  unmarked=$(grep -nE 'kolo(::|_|/)|%(push|tick|infer|train|save)\(' "$source" | grep -vE '(//|/\*|!) kolo( \*/)?$' | grep -vE '^[0-9]+: *(//|!|/?\*)' || true)
  [[ -z $unmarked ]] || { echo "size.sh: lines about kolo without its mark: $unmarked" >&2; exit 1; }
done
