#!/bin/bash
# floors.sh SOURCE: every include leads to the same room or to one of a lower floor, by the table "The house" of docs/inside/architecture.md,
# and every room stands in that table. And documents name only sources that are there.
set -euo pipefail
cd "$1"
declare -A floor
while read -r number room; do floor[$room]=$number; done \
  < <(sed -nE 's/^\| ([0-9]+) \| `([a-z_]+)` \|.*/\1 \2/p' docs/inside/architecture.md)
((${#floor[@]} > 10)) || { echo "floors: docs/inside/architecture.md has no table of rooms" >&2; exit 1; }
wrong=0
for folder in src/*/ include/kolo/*/; do
  room=$(basename "$folder")
  [[ ${floor[$room]:-} ]] || { echo "$folder: no room of docs/inside/architecture.md" >&2; wrong=1; continue; }
done
# FILE:LINE:#include "kolo/ROOM/..." or "ROOM/..."
while IFS=: read -r file line include; do
  path=${file#src/} path=${path#include/kolo/}
  from=${path%%/*} to=${include#*\"}
  to=${to#kolo/}
  [[ $to == */* ]] || continue
  to=${to%%/*}
  [[ ${floor[$to]:-} && ${floor[$from]:-} && $to != "$from" ]] || continue
  ((floor[$to] < floor[$from])) && continue
  echo "$file:$line: $from (floor ${floor[$from]}) includes $to (floor ${floor[$to]})" >&2
  wrong=1
done < <(grep -rnE '^#include "' --include='*.h' --include='*.cpp' --include='*.cu' src include/kolo/*/)
# Sources that the documents name are there; not those to be written (NAME, <name>).
while IFS=: read -r document path; do
  [[ -e $path ]] || compgen -G "$path.*" >/dev/null || { echo "$document names $path, which is not there" >&2; wrong=1; }
done < <(grep -oE '`(src|include/kolo|tests|bench|examples|scripts)/[a-z0-9_./*-]+`' docs/*/*.md docs/use/tutorial/*.md CONTRIBUTING.md README.md | tr -d '`' | grep -v '[*]')
exit $wrong
