// training.virtual_ranks: the same bits on any number of ranks.
#include "cli/small_runs.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

// 400 samples in parts of 4 batches of 8: 13 steps an epoch, of which the last is a smaller one.
class VirtualRanks : public SmallRuns {
 protected:
  [[nodiscard]] static std::vector<std::string> settings(const std::vector<std::string>& more) {
    std::vector<std::string> all = {"training.virtual_ranks=4", "training.batch_size=8",
                                    "training.n_epochs=2", "model.dropout=0.25",
                                    "training.clip_norm=1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  void expect_same_bits(const std::string& whole, const std::string& other) const {
    expect_same_weights(whole, other);
    const auto of_a = history(whole), of_b = history(other);
    ASSERT_EQ(of_a.epochs().size(), of_b.epochs().size());
    for (std::size_t i = 0; i < of_a.epochs().size(); ++i) {
      if (i > 0) {  // 0: before training
        EXPECT_EQ(of_a.epochs()[i].loss, of_b.epochs()[i].loss);
      }
      EXPECT_EQ(of_a.epochs()[i].val_loss, of_b.epochs()[i].val_loss);
      EXPECT_EQ(of_a.epochs()[i].val_accuracy, of_b.epochs()[i].val_accuracy);
    }
  }
};

TEST_F(VirtualRanks, ARunHasTheSameBitsOnAnyNumberOfRanks) {
  const auto one = train(settings({}), "one");
  ASSERT_EQ(one.exit_code, 0) << one.errors;
  EXPECT_TRUE(says(one.output, {"4 virtual ranks", "batch 8 per virtual rank (32 in all)"}));
  for (const auto* const ranks : {"2", "3", "4"}) {
    const auto run = train(settings({"-n", ranks, "--oversubscribe"}), ranks);
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    expect_same_bits("one", ranks);
  }
}

TEST_F(VirtualRanks, ARunGoesOnWithOtherRanksToTheSameBits) {
  ASSERT_EQ(train(settings({}), "whole").exit_code, 0);
  const auto first = settings({"checkpoint.every_steps=5", "-n", "4", "--oversubscribe"});
  ASSERT_EQ(train(first).exit_code, 0);
  const auto rest = train(settings({"--resume=15", "-n", "3", "--oversubscribe"}));
  ASSERT_EQ(rest.exit_code, 0) << rest.errors;
  EXPECT_TRUE(says(rest.output, {"3 ranks instead of 4"}));
  const auto a = newest("whole"), b = newest();
  EXPECT_EQ(a.step, b.step);
  for (const auto* const file : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_TRUE(read_text_file(a.path / file) == read_text_file(b.path / file)) << file;
}

TEST_F(VirtualRanks, AResumeSaysWhatElseTheBitsDependOn) {
  ASSERT_EQ(train(settings({"checkpoint.every_steps=5"})).exit_code, 0);
  const auto state = newest().content.state;
  EXPECT_EQ(state.at("virtual_ranks"), 4);
  EXPECT_EQ(state.at("made_with").at("threads per rank"), "1");
  const auto other = train(settings({"--resume=15", "device.intra_threads=2"}));
  ASSERT_EQ(other.exit_code, 0) << other.errors;
  EXPECT_TRUE(says(other.output, {"made with threads per rank 2 instead of 1: the last digits"}));
}

TEST_F(VirtualRanks, WhatDoesNotGoTogetherIsRefusedBeforeAnythingStarts) {
  const auto expect_refused = [&](const std::vector<std::string>& more, const std::string& words) {
    const auto run = train(settings(more));
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_TRUE(says(run.errors, {"training.virtual_ranks", words}));
    EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  };
  expect_refused({"-n", "5", "--oversubscribe"}, "4 parts of a step are too few for 5 ranks");
  expect_refused({"model.sync_batch_norm=true"}, "model.sync_batch_norm");
  expect_refused({"parallel.pipeline=2", "-n", "2"}, "parallel.pipeline");
  expect_refused({"training.virtual_ranks=-1"}, "training.virtual_ranks");
}

}  // namespace
}  // namespace kolo::testing
