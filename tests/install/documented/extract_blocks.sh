#!/bin/bash
# extract_blocks.sh PAGE FOLDER: each C++ block of a page of the documentation, as FOLDER/NAME.inc. A line before the block names it,
# <!-- block: NAME -->, which readers don't see. A block without a name is an error: it would be one that nobody compiles.
set -euo pipefail
mkdir -p "$2"
awk -v page="$1" -v folder="$2" '
  /^<!-- block: .* -->$/ { name = $3; next }
  /^```cpp$/ {
    if (name == "") { printf "%s:%d: a C++ block without a name: <!-- block: NAME --> before it\n", page, NR > "/dev/stderr"; exit 1 }
    file = folder "/" name ".inc"
    printf "#line %d \"%s\"\n", NR + 1, page > file
    inside = 1; next
  }
  /^```/ && inside { inside = 0; name = ""; close(file) }
  inside { print > file }' "$1"
