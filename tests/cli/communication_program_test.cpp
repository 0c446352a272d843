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
    ASSERT_TRUE(succeeds(train(settings, name), {"gradients travel as " + name}));
    EXPECT_GT(history(name).epochs().back().val_accuracy, .5);
  }
  have_run({"-n", "2", "training.n_epochs=2"}, "exact");
  EXPECT_FALSE(read_text_file(newest("exact").path / "model.safetensors") ==
               read_text_file(newest("bf16").path / "model.safetensors"));
  ASSERT_TRUE(succeeds(train({"--resume", "training.n_epochs=3", "-n", "3", "--oversubscribe",
                              "communication.compression=none"},
                             "powersgd"),
                       {"communication.compression is none instead of powersgd"}));
}

TEST_F(CommunicationProgram, ShardedRunsHaveTheSameBitsAndGoOnWithAndWithout) {
  have_run({"-n", "2", "training.n_epochs=2"}, "whole");
  ASSERT_TRUE(succeeds(train({"-n", "2", "training.n_epochs=2", "optimizer.sharded=true"}, "parts"),
                       {"each rank has a part of its state"}));
  expect_same_weights("whole", "parts");

  const auto goes_on = [&](const std::string& from, const std::string& to, const char* ranks,
                           const char* is_sharded) {
    if (from != to) copy(from, to);
    EXPECT_TRUE(
        succeeds(train({"--resume=13", "-n", ranks, "--oversubscribe", "training.n_epochs=2",
                        std::string("optimizer.sharded=") + is_sharded},
                       to)));
  };
  goes_on("whole", "to_whole", "3", "false");
  goes_on("parts", "parts", "3", "true");
  goes_on("whole", "to_parts", "3", "true");
  for (const auto* const other : {"parts", "to_parts"}) expect_same_weights("to_whole", other);
}

TEST_F(CommunicationProgram, AStepInPassesIsSaidAndCountsWhole) {
  ASSERT_TRUE(succeeds(train({"training.accumulation=4", "-n", "2", "training.n_epochs=1"}),
                       {"batch 16 per rank in 4 passes (32 in all)"}));
  EXPECT_EQ(newest().step, 13);
  ASSERT_TRUE(succeeds(train({"--resume", "-n", "2", "training.n_epochs=2"}),
                       {"training.accumulation is 1 instead of 4", "going on at step 13"}));
}

}  // namespace
}  // namespace kolo::testing
