// Studies with a shell script in the place of kolo.
#include "kolo/study/scale_study.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

// A run that is refused has no folder.
TEST(ScaleRuns, AFailedRunNamesItsLogWhereItHasOne) {
  const TemporaryFolder folder;
  ScaleRequest request;
  request.config.file =
      folder.write("digits.yaml",
                   "data: {name: dummy, input_shape: [1, 28, 28], n_train: 16, n_valid: 8}\n"
                   "model: {name: mnist_net}\n"
                   "optimizer: {name: sgd}\n"
                   "training: {batch_size: 8, n_epochs: 1}\n");
  request.ranks = {1};
  request.output = folder / "study";
  const auto problem_of = [&](const std::string& script) {
    request.program = folder.write_program("kolo", "#!/bin/sh\n" + script + "exit 1\n");
    return scale_study(request).study.points.front().problem;
  };
  EXPECT_EQ(problem_of(""), "kolo train ended with status 1");
  const auto run = folder / "study/runs/weak-1";
  const auto log = (run / "out.log").string();
  EXPECT_TRUE(says(problem_of("mkdir -p " + run.string() + "\n: > " + log + "\n"),
                   {"status 1; what it said is in " + log}));
}

}  // namespace
}  // namespace kolo::testing
