// Runs whose ranks share samples (parallel.spatial), next to one rank that has whole ones.
#include <cmath>
#include <sstream>

#include "kolo/run/evaluate_run.h"
#include "run/field_runs.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

class SharedSamples : public FieldRuns {};

TEST_F(SharedSamples, TrainAsOnOneRank) {
  const std::string one_epoch = "training.n_epochs=1";
  train("whole", 1, {one_epoch});
  struct Case {
    int ranks;
    std::string spatial;
    std::vector<std::string> more = {};
  };
  const std::vector<Case> cases{{2, "[2,1,1]"},
                                {3, "[1,3,1]"},
                                {4, "[2,1,2]"},
                                {8, "[2,2,2]"},
                                {8, "[8,1,1]"},
                                {4, "[2,1,1]"},  // two replicas
                                {4, "[2]", {"optimizer.shared_step=false"}},
                                {2, "[2]", {"optimizer.sharded=true", "training.accumulation=2"}}};
  for (const auto& [ranks, spatial, more] : cases) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks, " + spatial);
    auto settings = more;
    settings.insert(settings.end(), {one_epoch, "parallel.spatial=" + spatial});
    const auto said = train("shared", ranks, settings);
    EXPECT_TRUE(says(said, {"share a sample, cut as"}));
    if (spatial == "[8,1,1]") {
      EXPECT_TRUE(says(said, {"computed whole by all 8 ranks: down3 to up3", "[2,2,2]: none"}));
    }
    expect_same_losses("shared", "whole");
    expect_same_tensors(weights("shared"), weights("whole"), false);
  }
}

TEST_F(SharedSamples, TwiceTheSameIsTheSameToTheBit) {
  for (const auto* folder : {"first", "second"})
    train(folder, 4, {"parallel.spatial=[2,1,2]", "training.n_epochs=1"});
  expect_same_tensors(weights("first"), weights("second"), true);
  EXPECT_EQ(losses("first"), losses("second"));
}

TEST_F(SharedSamples, WithClippingAndSkippingToo) {
  const std::vector<std::string> settings{"training.clip_norm=0.05", "training.non_finite=skip"};
  train("whole", 1, settings);
  auto shared = settings;
  shared.emplace_back("parallel.spatial=[1,2,1]");
  train("shared", 2, shared);
  expect_same_losses("shared", "whole");
}

TEST_F(SharedSamples, AreMeasuredOnAnyNumberOfRanks) {
  train("run", 2, {"parallel.spatial=[2,1,1]"});
  const auto expected = losses("run").at(4);  // of the last epoch's validation
  std::vector<RunEvaluation> results;
  for (const int ranks : {1, 3, 4}) {
    run_as_threads(ranks, [&](const Communicator& communicator) {
      std::ostringstream console;
      const RunOptions options{.console = &console, .communicator = communicator};
      const EvaluationRequest request{.path = folder_ / "run", .checkpoint = "newest"};
      EXPECT_EQ(evaluate_run(
                    request,
                    [&](const RunEvaluation& result) {
                      EXPECT_EQ(result.sums.samples, 2);
                      EXPECT_NEAR(result.sums.mean_loss(), expected, tolerance * expected);
                      results.push_back(result);
                    },
                    ranges_of_threads(), options),
                0);
    });
  }
  for (const auto& result : results) {
    const auto all = result.errors_of_all();
    EXPECT_EQ(all.values, 2 * 5 * 32 * 32 * 32);
    EXPECT_NEAR(all.mean_absolute_error(), expected, tolerance * expected) << "the loss l1";
    ASSERT_EQ(result.errors.size(), 5U);
    EXPECT_EQ(result.errors[4].name, "temperature");
    for (std::size_t i = 0; i < 5; ++i) {
      const auto first = results[0].errors[i].sums.r_squared();
      EXPECT_NEAR(result.errors[i].sums.r_squared(), first, tolerance * (1 + std::abs(first)));
    }
  }
}

TEST_F(SharedSamples, ThatCanNotBeCutSoAreRefused) {
  const auto message = [&](std::vector<std::string> settings) {
    const ConfigSource source{config_, {}, std::move(settings), {}, folder_ / "refused"};
    return message_of<InputError>([&] { (void)kolo::run(source, ranges_of_threads()); });
  };
  EXPECT_THAT(message({"parallel.spatial=[2,1,1]"}),
              AllOf(HasSubstr("command line: parallel: 1 rank, but spatial [2,1,1] takes a "
                              "multiple of 2; start 2 ranks"),
                    Not(HasSubstr("parallel: parallel"))));
  EXPECT_TRUE(says(message({"parallel.spatial=[1,1,1,1]"}), {"4 axes, expected at most 3"}));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "refused"));
}

}  // namespace
}  // namespace kolo::testing
