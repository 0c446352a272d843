// A network in a pipeline of two ranks, through the binary: kolo train and what looks at it.
#include "cli/small_runs.h"
#include "support/matchers.h"

namespace kolo::testing {
namespace {

using ::testing::Ge;
using ::testing::Lt;

class PipelineProgram : public Runs {
 protected:
  PipelineProgram()
      : Runs(
            "data: {name: dummy, input_shape: [3, 16, 16], n_train: 70, n_valid: 21}\n"
            "model: {name: resnet_small}\n"
            "optimizer: {name: sgd, momentum: 0.9, lr: 0.001}\n"
            "training: {batch_size: 16, n_epochs: 1}\n"
            "parallel: {pipeline: 2, microbatches: 4}\n") {}
};

TEST_F(PipelineProgram, TrainsAndShowsWhenRanksAreIdle) {
  ASSERT_TRUE(succeeds(
      train({"-n", "2", "--timeline"}),
      {"pipeline of 2 ranks over ", "1f1b, 4 micro-batches of 4; 1 replica. rank 0: stem to ",
       "; rank 1: ", "batch norms see micro-batches of 4",
       "each epoch leaves out 6 of 70 samples"}));
  ASSERT_TRUE(succeeds(run_kolo({"timeline", folder / "run", "-o", folder / "all.json"}),
                       {"idle in a pipeline of 2 ranks, 4 micro-batches; equal stages "
                        "without messages: 20.0 %\n  mean of ",
                        "mean of 4 steps: rank 0 "}));

  const auto json = json_of({"eval", folder / "run"});
  EXPECT_EQ(json["samples"], 21);
  const double loss = history().epochs().back().val_loss;
  EXPECT_NEAR(json["loss"].get<double>(), loss, 1e-5 * loss);

  ASSERT_TRUE(succeeds(train({"--resume", "training.n_epochs=2", "parallel.pipeline=1",
                              "parallel.microbatches=null"}),
                       {"1 rank instead of 2"}));
}

// Nor does anything else, with the same micro-batches.
TEST_F(PipelineProgram, DropoutDoesNotDependOnSchedules) {
  const auto losses = [&](const std::string& schedule) {
    EXPECT_TRUE(succeeds(train(
        {"-n", "2", "model.name=cnn", "model.dropout=0.5", "parallel.schedule=" + schedule})));
    const auto last = history().epochs().back();
    return std::pair(last.loss, last.val_loss);
  };
  EXPECT_EQ(losses("gpipe"), losses("1f1b"));
}

TEST_F(PipelineProgram, IsMeasured) {
  const auto pipeline = json_of({"bench", config, "-n", "2", "--mode", "synthetic", "--steps", "3",
                                 "--warmup", "1", "--trials", "2"})
                            .at("pipeline");
  EXPECT_EQ(pipeline["schedule"], "1f1b");
  EXPECT_EQ(pipeline["micro_batches"], 4);
  EXPECT_NEAR(pipeline["ideal_idle_share"].get<double>(), .2, 1e-12);
  const auto shares = pipeline["idle_share_by_rank"].get<std::vector<double>>();
  EXPECT_EQ(shares.size(), 2U);
  EXPECT_THAT(shares, Each(AllOf(Ge(0), Lt(1))));
}

TEST_F(PipelineProgram, HasNoProfile) {
  EXPECT_TRUE(is_refused(run_kolo({"bench", config, "-n", "2", "--profile"}), {"--profile"}));
}

}  // namespace
}  // namespace kolo::testing
