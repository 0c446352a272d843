#!/bin/bash
# run.sh PREFIX CMAKE FOLDER SANITIZERS: builds programs in C and Fortran against an installed kolo, by CMake and by pkg-config, and runs
# them on two ranks.
set -euo pipefail
prefix=$1 cmake=$2 folder=$3 sanitizers=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fail() { echo "host/run.sh: $*" >&2; exit 1; }
flags=${sanitizers:+-fsanitize=$sanitizers}
mkdir -p "$folder"

# CMake's default generator, Makefiles: unlike Ninja's rules, its own scanner of Fortran reads names of modules without macros.
"$cmake" -G "Unix Makefiles" -S "$here" -B "$folder/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_FLAGS="-O0 $flags" -DCMAKE_Fortran_FLAGS="-O0 $flags" \
  >"$folder/configure.log" 2>&1 || { cat "$folder/configure.log"; fail "configuring failed"; }
"$cmake" --build "$folder/build" --verbose >"$folder/build.log" || { cat "$folder/build.log"; fail "building failed"; }
! grep -q 'libtorch\|libkolo_online\.a' "$folder/build.log" || fail "a C program links C++: $(grep -e '-o host_c ' "$folder/build.log")"

# Without CMake: what pkg-config says is enough. (MPICC and MPIFORT are those of the MPI that kolo is built with.)
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name kolo.pc)")
export PKG_CONFIG_PATH
read -ra options < <(pkg-config --cflags --libs kolo)
"${MPICC:-mpicc}" -std=c99 ${flags:+"$flags"} "$here/host.c" -o "$folder/plain_c" "${options[@]}" || fail "mpicc with pkg-config failed"
programs=("$folder/build/host_c" "$folder/plain_c")
if [[ -e $folder/build/host_fortran ]]; then
  sources=$(pkg-config --variable=fortrandir kolo)
  (cd "$folder" && "${MPIFORT:-mpifort}" ${flags:+"$flags"} "$sources/kolo.F90" "$here/host.f90" -o plain_fortran "${options[@]}") \
    || fail "mpifort with pkg-config failed"
  programs+=("$folder/build/host_fortran" "$folder/plain_fortran")
fi
for program in "${programs[@]}"; do
  output=$("$here/../../support/mpirun" 2 "$program") || fail "$program failed: $output"
  [[ $output == *" on 2 ranks: y(1) = 2.0"* ]] || fail "expected ' on 2 ranks: y(1) = 2.0' from $program, got: $output"
  echo "$output"
done
