// training.virtual_ranks: the same bits on any number of ranks.
#include "cli/small_runs.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

// 400 samples in parts of 4 batches of 8: 13 steps an epoch, of which the last is a smaller one.
class VirtualRanks : public SmallRuns {
 protected:
  [[nodiscard]] static std::vector<std::string> settings(const std::vector<std::string>& more) {
    return joined({"training.virtual_ranks=4", "training.batch_size=8", "training.n_epochs=2",
                   "model.dropout=0.25", "training.clip_norm=1"},
                  more);
  }
};

TEST_F(VirtualRanks, ARunHasTheSameBitsOnAnyNumberOfRanks) {
  have_run(settings({"checkpoint.every_steps=5"}), "one");
  EXPECT_TRUE(
      says(text_of("one/out.log"), {"4 virtual ranks", "batch 8 per virtual rank (32 in all)"}));
  for (const auto* const ranks : {"2", "3"}) {
    ASSERT_TRUE(succeeds(train(settings({"-n", ranks, "--oversubscribe"}), ranks)));
    expect_same_weights("one", ranks);
    expect_same_records("one", ranks);
  }
}

TEST_F(VirtualRanks, ARunGoesOnWithOtherRanksToTheSameBits) {
  have_run(settings({"checkpoint.every_steps=5"}), "whole");
  const auto first = settings({"checkpoint.every_steps=5", "-n", "4", "--oversubscribe"});
  ASSERT_EQ(train(first).exit_code, 0);
  ASSERT_TRUE(succeeds(train(settings({"--resume=15", "-n", "3", "--oversubscribe"})),
                       {"3 ranks instead of 4"}));
  expect_same_weights("whole", "run");
}

TEST_F(VirtualRanks, AResumeSaysWhatElseTheBitsDependOn) {
  have_run(settings({"checkpoint.every_steps=5"}));
  const auto state = newest().content.state;
  EXPECT_EQ(state.at("virtual_ranks"), 4);
  EXPECT_EQ(state.at("made_with").at("threads per rank"), "1");
  ASSERT_TRUE(succeeds(train(settings({"--resume=15", "device.intra_threads=2"})),
                       {"made with threads per rank 2 instead of 1: the last digits"}));
}

// On more ranks than virtual ones, too.
TEST_F(VirtualRanks, AnEvaluationMeasuresEachSampleOnce) {
  have_run(settings({"checkpoint.every_steps=5"}));
  const auto last = history().epochs().back();
  const auto evaluate = [&](const std::vector<std::string>& more) {
    return json_of(joined({"eval", folder / "run", "--checkpoint", "newest"}, more));
  };
  const auto one = evaluate({});
  for (const auto* const ranks : {"1", "3", "5"}) {
    const auto json = evaluate({"-n", ranks, "--oversubscribe"});
    EXPECT_EQ(json["samples"], 100);
    EXPECT_NEAR(json["loss"].get<double>(), last.val_loss, 1e-6);
    EXPECT_DOUBLE_EQ(json["accuracy"].get<double>(), last.val_accuracy);
    EXPECT_EQ(json["confusion_matrix"], one["confusion_matrix"]);
    if (json["n_ranks"] < 5) {
      EXPECT_EQ(json["loss"], one["loss"]) << "the same bits";
    }
  }
  EXPECT_EQ(evaluate({"--data", "training"})["samples"], 400);
  EXPECT_EQ(evaluate({"training.virtual_ranks=0"})["samples"], 100);
}

TEST_F(VirtualRanks, TooFewOrTooManyAreRefusedBeforeAnythingStarts) {
  EXPECT_TRUE(is_refused(train(settings({"-n", "5", "--oversubscribe"})),
                         {"training.virtual_ranks", "4 parts of a step are too few for 5 ranks"}));
  EXPECT_TRUE(is_refused(train({"training.virtual_ranks=17", "data.n_train=16"}),
                         {"16 training samples are too few for 17 virtual ranks; use fewer virtual "
                          "ranks or more samples"}));
  EXPECT_TRUE(
      is_refused(train({"data={name: dummy, input_shape: [1, 28, 28], n_train: 1000000000}",
                        "training.virtual_ranks=10000", "training.batch_size=100000"}),
                 {"training.batch_size", "a batch of 1 000 000 000 samples takes 2.86 TiB"}));
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

}  // namespace
}  // namespace kolo::testing
