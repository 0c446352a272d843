// communication.compression, optimizer.sharded and training.accumulation in runs that go on with
// and without them.
#include "cli/small_runs.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

class CommunicationProgram : public SmallRuns {};

TEST_F(CommunicationProgram, CompressedRunsLearnAndGoOnOnAnyNumberOfRanks) {
  for (const std::string name : {"bf16", "fp16", "powersgd"}) {
    std::vector<std::string> settings = {"communication.compression=" + name, "-n", "2",
                                         "training.n_epochs=2"};
    if (name == "powersgd") settings.emplace_back("communication.powersgd_start_step=5");
    const auto run = train(settings, name);
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_TRUE(says(run.output, {"gradients travel as " + name}));
    EXPECT_GT(history(name).epochs().back().val_accuracy, .5);
  }
  have_run({"-n", "2", "training.n_epochs=2"}, "exact");
  EXPECT_FALSE(read_text_file(newest("exact").path / "model.safetensors") ==
               read_text_file(newest("bf16").path / "model.safetensors"));
  const auto rest = train({"--resume", "training.n_epochs=3", "-n", "3", "--oversubscribe",
                           "communication.compression=none"},
                          "powersgd");
  ASSERT_EQ(rest.exit_code, 0) << rest.errors;
  EXPECT_TRUE(says(rest.output, {"communication.compression is none instead of powersgd"}));
}

TEST_F(CommunicationProgram, ShardedRunsHaveTheSameBitsAndGoOnWithAndWithout) {
  have_run({"-n", "2", "training.n_epochs=2"}, "whole");
  const auto parts = train({"-n", "2", "training.n_epochs=2", "optimizer.sharded=true"}, "parts");
  ASSERT_EQ(parts.exit_code, 0) << parts.errors;
  EXPECT_TRUE(says(parts.output, {"each rank has a part of its state"}));
  expect_same_weights("whole", "parts");

  const auto goes_on = [&](const std::string& from, const std::string& to, const char* ranks,
                           const char* is_sharded) {
    if (from != to) copy(from, to);
    const auto run = train({"--resume=13", "-n", ranks, "--oversubscribe", "training.n_epochs=2",
                            std::string("optimizer.sharded=") + is_sharded},
                           to);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
  };
  goes_on("whole", "to_whole", "3", "false");
  goes_on("parts", "parts", "3", "true");
  goes_on("whole", "to_parts", "3", "true");
  for (const auto* const other : {"parts", "to_parts"}) expect_same_weights("to_whole", other);
}

TEST_F(CommunicationProgram, AStepInPassesIsSaidAndCountsWhole) {
  const auto run = train({"training.accumulation=4", "-n", "2", "training.n_epochs=1"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_TRUE(says(run.output, {"batch 16 per rank in 4 passes (32 in all)"}));
  EXPECT_EQ(newest().step, 13);
  const auto rest = train({"--resume", "-n", "2", "training.n_epochs=2"});
  ASSERT_EQ(rest.exit_code, 0) << rest.errors;
  EXPECT_TRUE(
      says(rest.output, {"training.accumulation is 1 instead of 4", "going on at step 13"}));
}

}  // namespace
}  // namespace kolo::testing
