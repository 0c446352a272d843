#include "cli/command_line.h"
#include "run/blas.h"

int main(int argc, char** argv) {
  kolo::relaunch_on_right_core(argv);
  kolo::end_process(kolo::run_kolo_program({argv + 1, argv + argc}));
}
