// main() of cli_tests, which is the kolo program too where its first word is one of that: so ranks
// can be started by a fork of a test's process, without the second that a program which links
// LibTorch takes to start.
#include <string>

#include "cli/command_line.h"
#include "run/begin_process.h"
#include "support/run_tests.h"

int main(int argc, char** argv) {
  kolo::begin_process(argv);  // as kolo's main(): runs of both are compared to the bit
  const std::string first = argc > 1 ? argv[1] : "";
  if (first.empty() || first.starts_with("--gtest") || first.ends_with("_test.cpp"))
    return kolo::testing::run_tests(argc, argv);
  kolo::end_process(kolo::run_program({argv + 1, argv + argc}));
}
