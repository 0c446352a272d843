#!/bin/bash
# symbols.sh LIBRARY HEADER: the library shows the functions that the header declares, and nothing else.
set -euo pipefail
shown=$(nm -DC --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort)
declared=$(grep -oE '^(int|size_t) kolo_[a-z_0-9]+\(' "$2" | sed -E 's/^[a-z_]+ //; s/\(//' | sort)
[[ -n $shown ]] || { echo "symbols: $1 shows nothing" >&2; exit 1; }
diff <(echo "$declared") <(echo "$shown") || { echo "symbols: < declared in $2, > shown by $1" >&2; exit 1; }
