// Whole runs of a program with its own parts, by the public interface.
#include "kolo/run/run.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

#include <sys/resource.h>
#include <torch/nn/modules/linear.h>

#include "kolo/base/file.h"
#include "kolo/comm/threads.h"
#include "kolo/config/factories.h"
#include "kolo/data/dataset.h"
#include "kolo/nn/network.h"
#include "kolo/run/evaluate_run.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/objective.h"
#include "kolo/train/observe/history.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

class Dense final : public Network {
 public:
  explicit Dense(const ModelOptions& options)
      : layer_(register_module("layer", torch::nn::Linear(64, options.classes))) {}
  torch::Tensor forward(const torch::Tensor& input) override { return layer_(input.flatten(1)); }

 private:
  torch::nn::Linear layer_;
};

class EpochCounter final : public Observer {
 public:
  void on_epoch_end(const EpochReport& report) override { epochs.push_back(report.state.epoch); }
  std::vector<std::int64_t> epochs;
};

std::vector<std::int64_t> epochs_in(const History& history) {
  std::vector<std::int64_t> epochs;
  for (const auto& record : history.epochs()) epochs.push_back(record.epoch);
  return epochs;
}

class Run : public ::testing::Test {
 protected:
  // Data and network of the program.
  [[nodiscard]] static RunComponents components() {
    RunComponents components;
    components.models.add(
        {.name = "dense", .description = "one layer", .make = [](const ModelOptions& options) {
           return std::make_shared<Dense>(options);
         }});
    components.datasets = [](const RunConfig&, const DataReading&) {
      return Datasets{std::make_shared<RandomDataset>(SampleLayout{{1, 8, 8}, 4, {}}, 64, 1),
                      std::make_shared<RandomDataset>(SampleLayout{{1, 8, 8}, 4, {}}, 16, 2)};
    };
    return components;
  }

  [[nodiscard]] ConfigSource source(const std::vector<std::string>& settings = {}) const {
    return {config_, {}, settings, {}, folder_ / "run"};
  }

  // Options of a process that is alone.
  [[nodiscard]] RunOptions options() {
    return {.console = &console_, .stop_requested = [] { return false; }};
  }

  // Statuses of two ranks of the program's own, with these parts.
  std::array<int, 2> statuses_of_two(const RunComponents& first, const RunComponents& second) {
    std::array<int, 2> statuses{-1, -1};
    run_as_threads(2, [&](const Communicator& communicator) {
      auto of_rank = options();
      of_rank.communicator = communicator;
      const auto rank = static_cast<std::size_t>(communicator.rank());
      statuses.at(rank) = kolo::run(source(), rank == 0 ? first : second, of_rank);
    });
    return statuses;
  }

  [[nodiscard]] History history() const { return History::read(folder_ / "run" / "history.json"); }

  TemporaryFolder folder_;
  std::filesystem::path config_ = folder_.write(
      "dense.yaml",
      "{data: {name: fashion_mnist}, model: {name: dense}, optimizer: {name: adam, lr: 0.01},\n"
      " training: {batch_size: 8, n_epochs: 2}}\n");
  std::ostringstream console_;
};

TEST_F(Run, LeavesAFolderAndGoesOnThere) {
  auto mine = components();
  EpochCounter counter;
  mine.observers = {&counter};
  EXPECT_EQ(kolo::run(source(), mine, options()), 0);
  EXPECT_EQ(counter.epochs, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(history().epochs().back().epoch, 2);
  EXPECT_TRUE(says(console_.str(), {"model dense", "results in"}));
  for (const auto* name : {"config.yaml", "run.json", "out.log", "model.txt", "checkpoints"})
    EXPECT_TRUE(std::filesystem::exists(folder_ / "run" / name)) << name;

  auto longer = options();
  longer.resume = "newest";
  EXPECT_EQ(kolo::run(source(), mine, longer), 0);
  EXPECT_TRUE(says(console_.str(), {"holds a finished run: 2 epochs"}));
  EXPECT_EQ(kolo::run(source({"training.n_epochs=3"}), mine, longer), 0);
  EXPECT_EQ(counter.epochs, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(epochs_in(history()), (std::vector<std::int64_t>{0, 1, 2, 3}));
}

TEST_F(Run, ObjectiveAndOptimizerMayBeTheProgramsOwn) {
  auto mine = components();
  mine.optimizer = [](const RunConfig&) { return make_sgd({.momentum = .5}); };
  double scale = 0;
  mine.objective = [&scale](const RunConfig& config) {
    auto objective = make_objective(config);
    const auto usual = objective.loss;
    objective.loss = [usual, &scale](const auto& outputs, const auto& targets) {
      scale = 3;
      return 3 * usual(outputs, targets);
    };
    return objective;
  };
  EXPECT_EQ(kolo::run(source({"training.n_epochs=1"}), mine, options()), 0);
  EXPECT_EQ(scale, 3);
  const auto newest =
      CheckpointStore({folder_ / "run" / "checkpoints"}).load_newest([](const auto&) {});
  EXPECT_EQ(newest.value().content.state.at("optimizer"), "sgd");
}

TEST_F(Run, AnInputErrorOfAProcessThatIsAloneIsPassedOn) {
  const auto unknown = message_of<InputError>(
      [&] { (void)kolo::run(source({"model.name=dens"}), components(), options()); });
  EXPECT_TRUE(says(unknown, {"dense"}));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(Run, DataThatNeedsAGpuIsRefusedWithoutOne) {
  const auto box = folder_.write(
      "box.yaml",
      "{data: {name: nbody, mode: device, train_path: box.h5, valid_path: box.h5, n_train: 4,\n"
      " n_valid: 4}, model: {name: unet3d}, optimizer: {name: adam}, training: {loss: l1}}\n");
  const ConfigSource source{box, {}, {"device.kind=cpu"}, {}, folder_ / "run"};
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)kolo::run(source, {}, options()); }),
                   {"data.mode is device", "lowmem", "inmem"}));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(Run, RanksMayBeTheProgramsOwn) {
  EXPECT_THAT(statuses_of_two(components(), components()), Each(0));
  EXPECT_EQ(history().n_ranks(), 2);
  EXPECT_TRUE(says(console_.str(), {"2 ranks on 1 node"}));
}

TEST_F(Run, WhatOneRankCanNotPrepareEndsAllAlike) {
  auto without_data = components();
  without_data.datasets = [](const RunConfig&, const DataReading&) -> Datasets {
    throw InputError("no data on this node");
  };
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(statuses_of_two(components(), without_data), Each(exit_wrong_input));
  EXPECT_TRUE(
      says(::testing::internal::GetCapturedStderr(), {"rank 1 (on ", "no data on this node"}));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(Run, IsMeasuredByItsBestCheckpointOnSamplesThatDoNotVary) {
  auto mine = components();
  std::vector<bool> varied;
  mine.datasets = [&, usual = mine.datasets](const RunConfig& config, const DataReading& reading) {
    varied.push_back(reading.varies);
    return usual(config, reading);
  };
  ASSERT_EQ(kolo::run(source(), mine, options()), 0);
  std::optional<RunEvaluation> found;
  const auto keep = [&](const RunEvaluation& evaluation) { found = evaluation; };
  EXPECT_EQ(evaluate_run({.path = folder_ / "run"}, keep, mine, options()), 0);
  EXPECT_EQ(varied, (std::vector<bool>{true, false}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->sums.samples, 16);
  EXPECT_EQ(found->model, "dense");
  const auto best = CheckpointStore({folder_ / "run" / "checkpoints"}).best();
  EXPECT_EQ(found->step, best.value().step);
  EXPECT_EQ(found->epoch, best.value().step / 8);
}

// Called in its own process, which keeps the limit.
int write_beyond_the_limit(const std::filesystem::path& file) {
  return run_main([&] {
    const rlimit limit{.rlim_cur = 1000, .rlim_max = 1000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 3;
    write_file_atomically(file, std::string(2000, ' '));
    return 0;
  });
}

TEST(RunMainDeathTest, ALimitOfFilesIsAnErrorWithAMessage) {
  const TemporaryFolder folder;
  EXPECT_EXIT(std::exit(write_beyond_the_limit(folder / "large")), ::testing::ExitedWithCode(1),
              "large.*File too large");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace kolo::testing
