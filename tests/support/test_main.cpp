// main() of test programs without ranks.
#include "support/run_tests.h"

int main(int argc, char** argv) {
  return kolo::testing::run_tests(argc, argv);
}
