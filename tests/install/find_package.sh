#!/bin/bash
# find_package.sh BUILD CMAKE COMPILER SANITIZERS [EXAMPLES]: installs a build to a folder of its own, then builds a small outside project
# against it and runs it on two ranks. It must learn what it should and link nothing of the trainer's. EXAMPLES: ON does so with the
# documented loops and the examples too, which takes minutes.
set -euo pipefail
build=$1 cmake=$2 compiler=$3 sanitizers=$4 examples=${5:-OFF}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "find_package.sh: $*" >&2; exit 1; }

"$cmake" --install "$build" --prefix "$folder/prefix" >"$folder/install.log" || { cat "$folder/install.log"; fail "installing failed"; }
# The job scripts are there, and can be run, with what a cluster's users load.
if [[ -e $folder/prefix/bin/kolo ]]; then
  shared=$folder/prefix/share/kolo
  for file in modulefiles/kolo/*.lua submit/common.sh submit/slurm/job.sh configs/hello.yaml; do
    compgen -G "$shared/$file" >/dev/null || fail "share/kolo/$file is not installed"
  done
  [[ -x $folder/prefix/bin/kolo-plot ]] || fail "kolo-plot is not installed"
  for script in "$shared"/submit/{slurm/train,slurm/gpu,slurm/perlmutter,slurm/array,slurm/study,pbs/polaris}.sh; do
    [[ $("$script" --help) == *CONFIG* ]] || fail "$script does not run"
  done
fi

# The installed program leaves out what LibTorch names and takes nothing from, where the build has found any.
if [[ -e $folder/prefix/bin/kolo ]]; then
  loaded=$(ldd "$folder/prefix/bin/kolo")
  for file in "$build"/unused_libraries/*; do
    [[ ! -e $file || $loaded == *"/unused_libraries/${file##*/} "* ]] || fail "the installed kolo loads ${file##*/}: $loaded"
  done
fi

# Simulations in C and Fortran.
if compgen -G "$folder/prefix/lib*/libkolo_online.so" >/dev/null; then
  "$here/host/run.sh" "$folder/prefix" "$cmake" "$folder/host" "$sanitizers" || fail "programs in C or Fortran fail"
fi

# The loops of docs/library/training-loops.md, as they stand there.
"$here/documented/extract_blocks.sh" "$here/../../docs/library/training-loops.md" "$folder/blocks"
for block in "$folder"/blocks/*.inc; do
  grep -q "#include \"${block##*/}\"" "$here/documented/main.cpp" || fail "nothing runs the block ${block##*/} of docs/library/training-loops.md"
done
# Data of one's own: what the page shows stands in the example.
own=$here/../../examples/own_data
missing=$(sed -n '/^```cpp/,/^```$/p' "$here/../../docs/use/own-data.md" | grep -v '^```' | sed 's/^ *//' | grep -vxFf <(sed 's/^ *//' "$own/main.cpp") || true)
[[ -z $missing ]] || fail "docs/use/own-data.md shows lines that examples/own_data/main.cpp lacks: $missing"

# Looking only in the prefix shows that nothing of the build folder is needed.
with_trainer=OFF
if [[ -e $folder/prefix/bin/kolo ]]; then with_trainer=ON; fi
# (The LibTorch is the build's, which may not be the system's.)
torch=$(sed -n 's/^Torch_DIR:PATH=//p' "$build/CMakeCache.txt")
"$cmake" -G Ninja -S "$here/all" -B "$folder/build" -DCMAKE_PREFIX_PATH="$folder/prefix" -DTorch_DIR="$torch" -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_CXX_FLAGS="-O0${sanitizers:+ -fsanitize=$sanitizers}" -DTESTS="$here" -DBLOCKS="$folder/blocks" \
  -DWITH_TRAINER=$with_trainer -DEXAMPLES="$examples" >"$folder/configure.log" || { cat "$folder/configure.log"; fail "configuring failed"; }
"$cmake" --build "$folder/build" --verbose >"$folder/build.log" || { cat "$folder/build.log"; fail "building failed"; }

# What the linker was told to link: LibTorch may use any of these for itself.
link_line=$(grep -e '-o outside/outside' "$folder/build.log") || { cat "$folder/build.log"; fail "no link line found"; }
for library in yaml hdf5 nlohmann libkolo_config libkolo_train libkolo_observe; do
  [[ $link_line != *"$library"* ]] || fail "the outside project links $library: $link_line"
done
for library in libkolo_parallel libkolo_comm; do
  [[ $link_line == *"$library"* ]] || fail "the outside project does not link $library: $link_line"
done
[[ $link_line != *"$build"* ]] || fail "the outside project links something of the build folder: $link_line"

output=$("$here/../support/mpirun" 2 "$folder/build/outside/outside")
[[ $output == *"2 ranks: y = 3.000 x -1.000"* ]] || fail "expected '2 ranks: y = 3.000 x -1.000' from the outside project, got: $output"
echo "$output"

output=$("$here/../support/mpirun" 2 "$folder/build/outside/simulation")
[[ $output == *"simulation on 2 ranks: 3"* ]] || fail "expected 'simulation on 2 ranks: 3' from a program with an MPI of its own, got: $output"

if [[ $with_trainer == ON ]]; then "$folder/prefix/bin/kolo" --help >/dev/null || fail "the installed kolo --help failed"; fi
[[ $examples == ON ]] || exit 0

"$here/../support/mpirun" 2 "$folder/build/documented/documented" || fail "the documented loops do not do what they should"

# The examples: an ordinary program and the same made parallel, which differ in eight marked lines. On Fashion-MNIST, where it is
# installed; LibTorch reads it unpacked.
mkdir "$folder/data"
for file in /usr/share/datasets/fashion-mnist/*.gz; do gunzip -c "$file" >"$folder/data/$(basename "$file" .gz)"; done
cd "$folder"
for number in 1 2 3 4 5 6 7 8; do
  (($(grep -c "// $number: " "$here/../../examples/mnist_parallel.cpp") == 1)) || fail "mnist_parallel.cpp has no single line marked $number"
done
added=$(diff "$here/../../examples/mnist_alone.cpp" "$here/../../examples/mnist_parallel.cpp" | grep '^>' | grep -cv '^> *\(//\|$\|#include\)' || true)
((added <= 9)) || fail "mnist_parallel.cpp differs from mnist_alone.cpp in $added lines"
accuracy_of() { sed -n 's/.*test accuracy \([0-9]*\)\..*/\1/p' <<<"$1" | tail -1; }
alone=$(OMP_NUM_THREADS=1 "$folder/build/examples/mnist_alone" data 1)
parallel=$("$here/../support/mpirun" 2 "$folder/build/examples/mnist_parallel" data 1)
echo "$alone"; echo "$parallel"
(($(grep -c '^epoch' <<<"$parallel") == 1)) || fail "expected one line of rank 0, got: $parallel"
(($(accuracy_of "$alone") >= 78)) || fail "mnist_alone learns too little: $alone"
(($(accuracy_of "$parallel") >= 78)) || fail "mnist_parallel learns too little: $parallel"
[[ -s $folder/mnist.pt ]] || fail "no mnist.pt was saved"

# Two networks that train against each other: generated points begin far from the circle and come to lie near it.
points=$("$here/../support/mpirun" 2 "$folder/build/examples/gan" 1500)
echo "$points"
(($(grep -c '^step' <<<"$points") == 4)) || fail "expected four lines of rank 0, got: $points"
[[ $(tail -1 <<<"$points") == *"circle 0."[01]* ]] || fail "gan learns too little: $points"

# A network inside of a program.
if [[ $with_trainer == ON ]]; then
  output=$("$here/../support/mpirun" 2 "$folder/build/host/online")
  [[ $output == *"C++ on 2 ranks: y(1) = 2.0"* ]] || fail "expected 'C++ on 2 ranks: y(1) = 2.0' from a program with kolo::online, got: $output"
  echo "$output"
  for example in heat_closure burgers advection; do
    program=$folder/build/simulations/$example
    [[ ! -x $program ]] || "$here/../examples/$example.sh" "$program" 2 || fail "examples/simulations: $example fails"
  done
fi

# The trainer takes a network of one's own, and the program runs from where it was installed.
if [[ $with_trainer == ON ]]; then
  custom=$here/../../examples/custom_model
  custom_model=$folder/build/custom_model/custom_model
  train_custom() {
    "$here/../support/mpirun" 2 "$custom_model" train "$custom/custom.yaml" data.n_train=8000 data.n_valid=2000 \
      data.path="$folder/data" output_dir="$folder/custom_run" "$@"
  }
  output=$(train_custom training.n_epochs=1)
  echo "$output"
  accuracy=$(sed -n 's/.*best validation accuracy \([0-9]*\)\..*/\1/p' <<<"$output")
  ((accuracy >= 65)) || fail "custom_model learns too little: $output"
  output=$(train_custom training.n_epochs=2 --resume)
  [[ $output == *"resuming from $folder/custom_run/checkpoints/step-"* ]] || fail "custom_model does not go on from its checkpoint: $output"
  "$custom_model" report "$folder/custom_run" -o "$folder/custom.html" >/dev/null || fail "custom_model's run makes no report"
  [[ -s $folder/custom.html ]] || fail "custom_model's report is empty"
  output=$("$custom_model" eval custom_run -n 2)
  (($(sed -n 's/^accuracy  *\([0-9]*\)\..*/\1/p' <<<"$output") >= 65)) || fail "custom_model eval measures too little: $output"
  "$folder/prefix/bin/kolo" data images --from fashion-mnist -o images --per-class 5 >/dev/null
  "$custom_model" predict custom_run images/valid -o classes.csv -n 2 >/dev/null || fail "custom_model predict fails"
  (($(wc -l <classes.csv) == 11)) || fail "expected a line for each of ten images, got: $(cat classes.csv)"
  output=$("$custom_model" bench "$custom/custom.yaml" data.path=data -n 2 --mode full --steps 2 --trials 1)
  [[ $output == *two_towers* ]] || fail "custom_model bench measures another network: $output"
  output=$("$folder/prefix/bin/kolo" eval custom_run 2>&1) && fail "kolo eval takes a network that it doesn't know"
  [[ $output == *"was trained by ./build/custom_model/custom_model, whose network two_towers kolo doesn't know; use ./build/"* ]] ||
    fail "kolo eval does not name custom_model: $output"
  # Data of one's own: points on a circle, whose three classes overlap a little.
  points='BEGIN { srand(seed); for (i = 0; i < n; ++i) { a = 2.1 * (i % 3) + 1.3 * (rand() + rand() - 1); print i % 3 "," cos(a) "," sin(a) } }'
  awk -v seed=1 -v n=3000 "$points" >training.csv
  awk -v seed=2 -v n=999 "$points" >validation.csv
  output=$("$here/../support/mpirun" 2 "$folder/build/own_data/own_data" training.csv validation.csv 3)
  echo "$output"
  (($(grep -c '^epoch' <<<"$output") == 3)) || fail "expected three lines of rank 0, got: $output"
  (($(sed -n 's/.*accuracy \([0-9]*\)\..*/\1/p' <<<"$output" | tail -1) >= 85)) || fail "own_data learns too little: $output"
  echo "1,2" >>validation.csv
  "$folder/build/own_data/own_data" training.csv validation.csv 2>own.err && fail "own_data takes a line that is too short"
  grep -q 'validation.csv: line 1000: expected' own.err || fail "own_data does not name the line: $(cat own.err)"
fi
