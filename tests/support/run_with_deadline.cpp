// run_with_deadline SECONDS PROGRAM [ARGUMENT...]: runs a program and ends with its status. At the
// deadline it kills the program and everything that it started, and ends with 124: a hang must not
// outlive its test.
#include <cstdio>
#include <cstdlib>

#include "support/process.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: run_with_deadline SECONDS PROGRAM [ARGUMENT...]\n");
    return 2;
  }
  kolo::testing::ProcessOptions options;
  options.deadline = std::chrono::seconds(std::atoi(argv[1]));
  options.pass_output_through = true;
  const auto result = kolo::testing::run_process({argv + 2, argv + argc}, options);
  if (result.timed_out) {
    std::fprintf(stderr, "run_with_deadline: killed after %s s\n", argv[1]);
    return 124;
  }
  return result.exit_code;
}
