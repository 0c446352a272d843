// Runs whose ranks share samples (parallel.spatial), next to one rank that has whole ones.
#include <mutex>
#include <sstream>

#include <gmock/gmock.h>

#include "kolo/base/file.h"
#include "kolo/checkpoint/checkpoint_store.h"
#include "kolo/comm/threads.h"
#include "kolo/observe/history.h"
#include "kolo/run/evaluate_run.h"
#include "kolo/run/run.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double tolerance = 1e-5;

// kolo's U-Net, with weights that don't come from LibTorch's generator, which ranks that are
// threads share.
RunParts parts_of_threads() {
  RunParts parts;
  const auto made_by_one = std::make_shared<std::mutex>();
  parts.models.add({.name = "field_net",
                    .description = "a U-Net",
                    .make =
                        [made_by_one](const ModelOptions& options) {
                          const std::lock_guard lock(*made_by_one);
                          auto network = make_network("unet3d", options);
                          const torch::NoGradGuard no_gradient;
                          int seed = 1;
                          for (auto& parameter : network->parameters()) {
                            const auto numbers =
                                torch::sin(torch::arange(parameter.numel()) * (++seed * .37));
                            parameter.copy_(numbers.view(parameter.sizes()) * .05);
                          }
                          return network;
                        },
                    .has_dropout = false,
                    .has_batch_norm = false,
                    .makes_fields = true});
  return parts;
}

class SharedSamples : public ::testing::Test {
 protected:
  // Trains on so many ranks; what is said on the console.
  std::string train(const std::string& folder, int ranks, std::vector<std::string> settings,
                    const std::optional<std::string>& resume = std::nullopt) const {
    std::ostringstream console;
    const ConfigSource source{config_, {}, std::move(settings), {}, folder_ / folder};
    const auto parts = parts_of_threads();
    run_as_threads(ranks, [&](const Communicator& communicator) {
      RunOptions options;
      options.console = &console;
      options.communicator = communicator;
      options.stop_requested = [] { return false; };
      options.resume = resume;
      EXPECT_EQ(kolo::run(source, parts, options), 0);
    });
    return console.str();
  }

  [[nodiscard]] std::vector<double> losses(const std::string& folder) const {
    std::vector<double> values;
    const auto history = History::read(folder_ / folder / "history.json");
    for (const auto& epoch : history.epochs()) {
      if (epoch.epoch > 0) values.push_back(epoch.loss);
      values.push_back(epoch.val_loss);
    }
    for (const auto& step : history.steps()) values.push_back(step.loss);
    return values;
  }

  void expect_same_losses(const std::string& folder, const std::string& expected) const {
    const auto found = losses(folder), wanted = losses(expected);
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], wanted[i], tolerance * std::abs(wanted[i])) << i;
  }

  [[nodiscard]] std::vector<NamedTensor> weights(const std::string& folder) const {
    const CheckpointStore store({.folder = folder_ / folder / "checkpoints"});
    return store.load_newest([](const std::string&) {})->content.model;
  }

  // Adam's first steps are as long for gradients that are nothing but rounding.
  static constexpr std::string_view written = R"(
data: {name: nbody, mode: synthetic, box_size: 40, crop: 32, n_train: 8, n_valid: 2}
model: {name: field_net, levels: 3, channels: 8}
optimizer: {name: sgd, momentum: 0.9, lr: 0.05, lr_scaling: none}
training: {loss: l1, global_batch_size: 4, n_epochs: 2, kernels: usual, log_every: 1}
)";

  TemporaryFolder folder_;
  std::filesystem::path config_ = folder_.write("field.yaml", std::string(written));
};

TEST_F(SharedSamples, TrainAsOnOneRank) {
  train("whole", 1, {});
  struct Case {
    int ranks;
    std::string spatial;
    std::vector<std::string> more = {};
  };
  const std::vector<Case> cases{{2, "[2,1,1]"},
                                {2, "[1,1,2]"},
                                {3, "[1,3,1]"},
                                {4, "[2,1,2]"},
                                {8, "[2,2,2]"},
                                {8, "[8,1,1]"},
                                {4, "[2,1,1]"},  // two replicas
                                {4, "[2]", {"optimizer.shared_step=false"}}};
  for (const auto& [ranks, spatial, more] : cases) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks, " + spatial);
    auto settings = more;
    settings.push_back("parallel.spatial=" + spatial);
    const auto said = train("shared", ranks, settings);
    EXPECT_THAT(said, HasSubstr("share a sample, cut as"));
    expect_same_losses("shared", "whole");
    const auto found = weights("shared"), wanted = weights("whole");
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].name, wanted[i].name);
      EXPECT_TRUE(torch::allclose(found[i].tensor, wanted[i].tensor, 1e-4, 1e-6)) << found[i].name;
    }
  }
}

TEST_F(SharedSamples, TwiceTheSameIsTheSameToTheBit) {
  for (const auto* folder : {"first", "second"}) train(folder, 4, {"parallel.spatial=[2,1,2]"});
  const auto first = weights("first"), second = weights("second");
  for (std::size_t i = 0; i < first.size(); ++i)
    EXPECT_TRUE(torch::equal(first[i].tensor, second[i].tensor)) << first[i].name;
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

TEST_F(SharedSamples, AnyLayoutGoesOnFromAnyOther) {
  train("whole", 1, {"training.n_epochs=4"});
  train("run", 2, {"training.n_epochs=1", "parallel.spatial=[2,1,1]"});
  train("run", 2, {"training.n_epochs=2"}, "newest");
  train("run", 4, {"training.n_epochs=3", "parallel.spatial=[1,2,2]"}, "newest");
  train("run", 1, {"training.n_epochs=4"}, "newest");
  expect_same_losses("run", "whole");
}

TEST_F(SharedSamples, AreMeasuredOnAnyNumberOfRanks) {
  train("run", 2, {"parallel.spatial=[2,1,1]"});
  const auto expected = losses("run").at(4);  // of the last epoch's validation
  for (const int ranks : {1, 2, 3, 4}) {
    run_as_threads(ranks, [&](const Communicator& communicator) {
      RunOptions options;
      std::ostringstream console;
      options.console = &console;
      options.communicator = communicator;
      const EvaluationRequest request{.path = folder_ / "run", .checkpoint = "newest"};
      EXPECT_EQ(evaluate_run(
                    request,
                    [&](const RunEvaluation& result) {
                      EXPECT_EQ(result.sums.samples, 2);
                      EXPECT_NEAR(result.sums.mean_loss(), expected, tolerance * expected);
                    },
                    parts_of_threads(), options),
                0);
    });
  }
}

TEST_F(SharedSamples, ThatCanNotBeCutSoAreRefused) {
  const auto message = [&](std::vector<std::string> settings) {
    const ConfigSource source{config_, {}, std::move(settings), {}, folder_ / "refused"};
    return message_of<InputError>([&] { (void)kolo::run(source, parts_of_threads()); });
  };
  EXPECT_THAT(message({"parallel.spatial=[2,1,1]"}),
              AllOf(HasSubstr("command line: parallel: 1 rank, but spatial [2,1,1] takes a "
                              "multiple of 2; start 2 ranks"),
                    Not(HasSubstr("parallel: parallel"))));
  EXPECT_THAT(message({"parallel.spatial=[1,1,1,1]"}), HasSubstr("4 axes, expected at most 3"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "refused"));
}

TEST_F(SharedSamples, LayersThatAreComputedWholeAreSaid) {
  EXPECT_THAT(
      train("run", 8, {"parallel.spatial=[8,1,1]", "training.n_epochs=1"}),
      AllOf(HasSubstr("computed whole by all 8 ranks: down3 to up3"), HasSubstr("[2,2,2]: none")));
}

}  // namespace
}  // namespace kolo::testing
