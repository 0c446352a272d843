// checkpoint.strict_resume where nodes are lost; what else it refuses is in tests/cli.
#include "run/resume.h"

#include <gtest/gtest.h>

#include "run/run_training.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

// Whether a run of two ranks, with such settings, is started again with `ranks`.
bool is_started_with(int ranks, const std::vector<std::string>& settings) {
  const TemporaryFolder folder;
  const auto file = folder.write("run.yaml",
                                 "data: {name: dummy, input_shape: [1, 28, 28], n_train: 64}\n"
                                 "model: {name: mnist_net}\n"
                                 "optimizer: {name: sgd}\n"
                                 "training: {batch_size: 8}\n");
  const auto config = load_run_config({file, {}, settings, {}, folder / "run"});
  const auto run = prepare_training(config, {}, {}, 2, true);
  LaunchRequest request{.ranks = 2};
  const auto policy =
      training_restarts(request, run, {}, {.restarts = 1, .min_ranks = 1}, [](auto&) {});
  return policy.accepts(ranks);
}

TEST(StrictResumes, DoNotGoOnWithFewerRanksButForVirtualOnes) {
  const std::string strict = "checkpoint.strict_resume=true";
  EXPECT_TRUE(is_started_with(1, {}));
  EXPECT_TRUE(is_started_with(2, {strict}));
  EXPECT_FALSE(is_started_with(1, {strict}));
  EXPECT_TRUE(is_started_with(1, {strict, "training.virtual_ranks=2"}));
}

TEST(ProcessorName, HasNameFamilyAndModel) {
  EXPECT_EQ(processor_name("processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: "
                           "143\nmodel name\t: Intel(R) Xeon(R) Platinum 8480+\nstepping\t: 8\n\n"
                           "processor\t: 1\nmodel name\t: other\n"),
            "intel-r-xeon-r-platinum-8480-6-143");
  EXPECT_EQ(processor_name("processor : 0\nBogoMIPS : 50\n"), "processor");
  EXPECT_EQ(processor_name(""), "processor");
}

}  // namespace
}  // namespace kolo::testing
