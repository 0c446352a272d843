// Runs whose ranks have parts of the network (parallel.pipeline), or compute inner results twice
// (parallel.recompute), next to one rank that has the whole network.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "run/field_runs.h"
#include "run/prepared_run.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

class PipelinedRuns : public FieldRuns {
 protected:
  using Settings = std::vector<std::string>;

  // Compares model and optimizer, with the order and names of their tensors.
  void expect_same_checkpoint(const std::string& folder, const std::string& expected,
                              bool to_the_bit = false) const {
    const auto found = newest(folder), wanted = newest(expected);
    expect_same_tensors(found.model, wanted.model, to_the_bit);
    expect_same_tensors(found.optimizer, wanted.optimizer, to_the_bit, 2e-3);
  }
  static Settings joined(Settings settings, const Settings& more) {
    settings.insert(settings.end(), more.begin(), more.end());
    return settings;
  }
};

TEST_F(PipelinedRuns, TrainAsOnOneRank) {
  const Settings one_epoch{"training.n_epochs=1"};
  train("whole", 1, one_epoch);
  struct Case {
    int ranks;
    Settings settings;
  };
  const std::vector<Case> cases{
      {2, {"parallel.pipeline=2"}},
      {2, {"parallel.pipeline=2", "parallel.schedule=gpipe", "parallel.microbatches=2"}},
      {3, {"parallel.pipeline=3", "parallel.recompute=true"}},
      {4, {"parallel.pipeline=2"}},  // two replicas
      {4, {"parallel.pipeline=2", "parallel.spatial=[2,1,1]", "parallel.recompute=true"}}};
  for (const auto& [ranks, settings] : cases) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks, " + ::testing::PrintToString(settings));
    const auto said = train("pipelined", ranks, joined(settings, one_epoch));
    EXPECT_TRUE(says(said, {"pipeline of ", "rank 0: ", " per micro-batch to the next)"}));
    expect_same_losses("pipelined", "whole");
    expect_same_checkpoint("pipelined", "whole");
  }
}

TEST_F(PipelinedRuns, WithClippingAndSkippingToo) {
  const Settings settings{"training.clip_norm=0.05", "training.non_finite=skip",
                          "training.n_epochs=1"};
  train("whole", 1, settings);
  train("pipelined", 2, joined(settings, {"parallel.pipeline=2"}));
  expect_same_losses("pipelined", "whole");
}

TEST_F(PipelinedRuns, AnyLayoutGoesOnFromAnyOther) {
  train("whole", 1, {"training.n_epochs=5"});
  const auto go_on = [&](int ranks, int epochs, const Settings& settings) {
    const auto length = fmt::format("training.n_epochs={}", epochs);
    train("run", ranks, joined(settings, {length}),
          epochs > 1 ? std::optional<std::string>("newest") : std::nullopt);
  };
  go_on(2, 1, {"parallel.spatial=[2,1,1]"});
  go_on(2, 2, {});
  go_on(2, 3, {"parallel.pipeline=2"});
  go_on(3, 4, {"parallel.pipeline=3", "parallel.schedule=gpipe"});
  go_on(1, 5, {});
  expect_same_losses("run", "whole");
  expect_same_checkpoint("run", "whole");
}

TEST_F(PipelinedRuns, StoppedOnesGoOnToTheSameBits) {
  const Settings settings{"parallel.pipeline=2", "training.global_batch_size=2"};
  train("whole", 2, settings);
  int steps = 0;
  train("run", 2, settings, std::nullopt, [&] { return ++steps == 3; });
  train("run", 2, joined(settings, {"parallel.schedule=gpipe"}), "newest");
  expect_same_checkpoint("run", "whole", true);
  EXPECT_EQ(losses("run"), losses("whole"));
}

TEST_F(PipelinedRuns, RecomputingChangesNoBit) {
  const Settings settings{"training.n_epochs=1"};
  train("whole", 1, settings);
  EXPECT_TRUE(says(train("recomputed", 1, joined(settings, {"parallel.recompute=true"})),
                   {"computed again in backward"}));
  expect_same_checkpoint("recomputed", "whole", true);
  const auto shared = joined(settings, {"parallel.spatial=[2,1,1]"});
  train("shared", 2, shared);
  train("recomputed", 2, joined(shared, {"parallel.recompute=true"}));
  expect_same_checkpoint("recomputed", "shared", true);
}

TEST_F(PipelinedRuns, LeaveOutABatchThatIsNotFull) {
  EXPECT_TRUE(says(train("run", 2, {"parallel.pipeline=2", "data.n_train=7"}),
                   {"each epoch leaves out 3 of 7 samples"}));
  EXPECT_EQ(newest("run").state.at("step"), 2);
}

TEST_F(PipelinedRuns, ThatCanNotBeAreRefused) {
  const auto message = [&](int ranks, Settings settings) {
    const ConfigSource source{config_, {}, std::move(settings), {}, folder_ / "refused"};
    return message_of<InputError>([&] {
      const auto parts = ranges_of_threads();
      (void)prepare_run(load_run_config(source, parts.models), parts, {}, ranks);
    });
  };
  const Settings pipeline{"parallel.pipeline=2"};
  EXPECT_TRUE(says(message(1, pipeline), {"start 2 ranks"}));
  EXPECT_TRUE(says(
      message(64, {"parallel.pipeline=64"}),
      {"64 ranks, but the model field_net has ", " stages, of which each rank has one or more: "}));
  EXPECT_TRUE(says(message(2, joined(pipeline, {"parallel.microbatches=3"})),
                   {"parallel.microbatches: 3, but a replica's batch of 4 samples can't be cut "
                    "in so many of equal size; it can in 1, 2, 4"}));
  EXPECT_TRUE(says(message(1, {"parallel.microbatches=2"}), {"without a pipeline"}));
  EXPECT_TRUE(says(message(2, joined(pipeline, {"device.graphs=true"})),
                   {"device.graphs: true can't be had with parallel.pipeline"}));
  EXPECT_TRUE(says(message(2, joined(pipeline, {"data.n_train=3"})),
                   {"with whole batches of 4 (parallel.pipeline)"}));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "refused"));
}

}  // namespace
}  // namespace kolo::testing
