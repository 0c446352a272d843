#!/bin/bash
# check.sh BUILD [CMAKE [COMPILER]]: installs a build without MPI to a folder of its own, then builds a project against it, which finds no MPI, and
# runs it alone and, by the build's kolo, on two ranks. What isn't there says why.
set -euo pipefail
build=$1 cmake=${2:-cmake} compiler=${3:-c++}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "without_mpi: $*" >&2; exit 1; }

"$cmake" --install "$build" --prefix "$folder/prefix" --component development >"$folder/log" || { cat "$folder/log"; fail "installing failed"; }
[[ ! -e $folder/prefix/include/kolo/kolo.h ]] || fail "the header of the bindings is installed"
torch=$(sed -n 's/^Torch_DIR:PATH=//p' "$build/CMakeCache.txt")
configure() {
  "$cmake" -G Ninja -S "$here" -B "$folder/$1" -DCMAKE_PREFIX_PATH="$folder/prefix" -DTorch_DIR="$torch" -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON -DCOMPONENTS="$2" >"$folder/log" 2>&1
}
says() { tr -s '\n ' ' ' <"$folder/log" | grep -qF -- "$1" || { cat "$folder/log"; fail "not said: $1"; }; }
configure build "" || { cat "$folder/log"; fail "configuring failed"; }
"$cmake" --build "$folder/build" >"$folder/log" || { cat "$folder/log"; fail "building failed"; }

for component in c fortran; do
  ! configure bindings $component || fail "there is a component $component"
  says "this kolo was built without MPI (KOLO_MPI)"
done
! "$cmake" --build "$folder/build" --target session >"$folder/log" 2>&1 || fail "kolo/comm/session.h can be included"
says "this kolo was built without MPI, and a session is of a program with MPI"

output=$("$folder/build/without_mpi")
[[ $output == "1 ranks without MPI: 1" ]] || fail "expected one rank, got: $output"
if output=$(OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 "$folder/build/without_mpi" 2>&1); then fail "ranks of mpirun are not refused: $output"; fi
[[ $output == *"was built without MPI"* ]] || fail "ranks of mpirun are refused without the reason: $output"
kolo=$build/src/cli/kolo
if [[ ! -x $kolo ]]; then exit 0; fi
output=$("$kolo" run -n 2 --oversubscribe --launcher processes "$folder/build/without_mpi")
[[ $output == *"2 ranks without MPI: 3"* ]] || fail "expected two ranks, got: $output"
status=0
output=$("$kolo" train "$here/../../../configs/hello.yaml" -n 2 --hosts a:1,b:1 2>&1) || status=$?
[[ $status == 2 && $output == *"built without MPI"* ]] || fail "hosts are refused with status $status: $output"
output=$("$kolo" doctor || true)
[[ $output == *"left out (KOLO_MPI)"* ]] || fail "kolo doctor doesn't say that MPI was left out: $output"
