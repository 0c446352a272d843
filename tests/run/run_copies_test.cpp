// Runs whose nodes keep copies of the state on storage of their own. The ranks are threads, their
// nodes what the topology shows, each with a folder that stands for its storage; a crash is an
// error on rank 0.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/checkpoint/checkpoint_store.h"
#include "kolo/checkpoint/module_tensors.h"
#include "kolo/comm/threads.h"
#include "kolo/data/dataset.h"
#include "kolo/observe/history.h"
#include "kolo/run/run.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// With running statistics, which each rank has of its own; its weights are fixed, because ranks
// that are threads share LibTorch's generator.
class Normalized final : public Network {
 public:
  explicit Normalized(const ModelOptions& options)
      : norm_(register_module("norm", torch::nn::BatchNorm1d(64))),
        layer_(register_module("layer", torch::nn::Linear(64, options.classes))) {
    const torch::NoGradGuard no_gradient;
    for (auto& parameter : parameters())
      parameter.copy_(torch::sin(torch::arange(parameter.numel()) * .37).view(parameter.sizes()));
  }
  torch::Tensor forward(const torch::Tensor& input) override {
    return layer_(norm_(input.flatten(1)));
  }

 private:
  torch::nn::BatchNorm1d norm_;
  torch::nn::Linear layer_;
};

constexpr int copy_interval = 6;

// The copies in a folder that stands for a node's storage.
std::vector<fs::path> copies_on(const fs::path& node) {
  std::vector<fs::path> found;
  for (const auto& of_run : fs::directory_iterator(node))
    for (const auto& entry : fs::directory_iterator(of_run))
      if (entry.is_directory()) found.push_back(entry.path());
  return found;
}

// Fails after a step. Before, it waits for each copy, as steps are faster here than any disk.
class Crash final : public Observer {
 public:
  Crash(std::int64_t step, std::vector<fs::path> nodes) : step_(step), nodes_(std::move(nodes)) {}
  void on_step(const StepReport& report) override {
    const auto step = report.state.step;
    if (step == step_) throw Error("crash");
    if (step > copy_interval && step % copy_interval == 1 && step_ > 0) wait_for(step - 1);
  }

 private:
  void wait_for(std::int64_t step) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    const auto is_there = [&](const fs::path& node) {
      const auto all = copies_on(node);
      return all.size() == 1 && all[0].filename() == fmt::format("step-{:08}", step);
    };
    while (!std::ranges::all_of(nodes_, is_there) && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }

  std::int64_t step_;
  std::vector<fs::path> nodes_;
};

class RunCopiesOfRanks : public ::testing::Test {
 protected:
  RunCopiesOfRanks() {
    for (const auto* node : {"n0", "n1"}) fs::create_directory(folder / node);
  }

  struct Start {
    std::string output = "run";
    std::int64_t crash_at = 0;  // no crash
    std::string resume = {};
    std::vector<std::string> settings = {};
  };

  // Three ranks on two nodes, 20 steps per epoch. What is said.
  std::string start(const Start& start) {
    std::ostringstream console;
    const auto made_by_one = std::make_shared<std::mutex>();
    const auto rank = [&](const Communicator& communicator) {
      Crash crash(start.crash_at, {folder / "n0", folder / "n1"});
      RunParts parts;
      parts.models.add({.name = "normalized",
                        .description = "one layer",
                        .make = [made_by_one](const ModelOptions& options) {
                          const std::lock_guard lock(*made_by_one);
                          return std::make_shared<Normalized>(options);
                        }});
      parts.datasets = [](const RunConfig&, const DataReading&) {
        return Datasets{std::make_shared<RandomDataset>(SampleLayout{{1, 8, 8}, 4, {}}, 480, 1),
                        std::make_shared<RandomDataset>(SampleLayout{{1, 8, 8}, 4, {}}, 48, 2)};
      };
      if (communicator.rank() == 0) parts.observers = {&crash};
      RunOptions options;
      options.console = &console;
      options.stop_requested = [] { return false; };
      options.communicator = communicator;
      if (!start.resume.empty()) options.resume = start.resume;
      auto settings = start.settings;
      const auto node = fmt::format("n{}", communicator.topology().node);
      settings.push_back("checkpoint.local_folder=" + (folder / node).string());
      EXPECT_EQ(kolo::run({config, {}, settings, {}, folder / start.output}, parts, options), 0);
    };
    ThreadRanksOptions nodes;
    nodes.ranks_on_nodes = {2, 1};
    ::testing::internal::CaptureStderr();
    try {
      run_as_threads(3, rank, nodes);
      EXPECT_EQ(start.crash_at, 0);
    } catch (const Error& error) {
      console << error.what();
      if (start.crash_at > 0) {
        EXPECT_THAT(error.what(), HasSubstr("crash"));
      }
    }
    return console.str() + ::testing::internal::GetCapturedStderr();
  }

  [[nodiscard]] fs::path copy_of(const std::string& node, int step) const {
    const auto found = copies_on(folder / node);
    EXPECT_EQ(found.size(), 1U) << node;
    if (found.empty()) return {};
    EXPECT_EQ(found[0].filename(), fmt::format("step-{:08}", step));
    return found[0];
  }

  void expect_same_tensors(const CheckpointStore::Loaded& a,
                           const CheckpointStore::Loaded& b) const {
    EXPECT_EQ(a.step, b.step);
    for (const auto part : {&Checkpoint::model, &Checkpoint::optimizer}) {
      ASSERT_EQ((a.content.*part).size(), (b.content.*part).size());
      for (const auto& item : a.content.*part)
        EXPECT_TRUE(
            saved_tensor(b.content.*part, item.name, item.tensor.sizes()).equal(item.tensor))
            << item.name;
    }
  }
  [[nodiscard]] CheckpointStore::Loaded newest(const std::string& output) const {
    return CheckpointStore({folder / output / "checkpoints"})
        .load_newest([](const auto&) {})
        .value();
  }
  // That nothing had befallen the run, and nothing is left.
  void expect_undisturbed() {
    (void)start({.output = "whole"});
    expect_same_tensors(newest("whole"), newest("run"));
    const auto a = History::read(folder / "whole" / "history.json"),
               b = History::read(folder / "run" / "history.json");
    ASSERT_EQ(a.steps().size(), b.steps().size());
    for (std::size_t i = 0; i < a.steps().size(); ++i) {
      EXPECT_EQ(a.steps()[i].step, b.steps()[i].step);
      EXPECT_EQ(a.steps()[i].loss, b.steps()[i].loss);
    }
    ASSERT_EQ(a.epochs().size(), b.epochs().size());
    for (std::size_t i = 0; i < a.epochs().size(); ++i)
      EXPECT_EQ(a.epochs()[i].val_loss, b.epochs()[i].val_loss);
    for (const auto* node : {"n0", "n1"}) EXPECT_TRUE(fs::is_empty(folder / node)) << node;
  }

  TemporaryFolder folder;
  fs::path config = folder.write(
      "small.yaml",
      "{data: {name: fashion_mnist}, model: {name: normalized},\n"
      " optimizer: {name: adam, lr: 0.01}, checkpoint: {local_folder: x, local_every_steps: 6},\n"
      " training: {batch_size: 8, n_epochs: 2, log_every: 1}}\n");
};

TEST_F(RunCopiesOfRanks, HaveTheSameOnEveryNodeAndARunGoesOnFromThem) {
  EXPECT_THAT(start({.crash_at = 8}), HasSubstr("every 6 steps a copy of the state"));
  const auto a = copy_of("n0", 6), b = copy_of("n1", 6);
  expect_same_tensors(CheckpointStore::load(a), CheckpointStore::load(b));
  const auto said = start({.resume = "newest"});
  EXPECT_THAT(said,
              AllOf(HasSubstr("resuming from the copy of step 6 on "), HasSubstr(a.string()),
                    HasSubstr("there is no checkpoint yet"), HasSubstr("going on at step 6")));
  EXPECT_TRUE(fs::exists(folder / "run" / "checkpoints" / "step-00000006")) << "saved at once";
  expect_undisturbed();
}

TEST_F(RunCopiesOfRanks, OfANodeThatIsLeftAreHandedOver) {
  (void)start({.crash_at = 26});
  EXPECT_EQ(newest("run").step, 20);
  const auto lost = copy_of("n0", 24).parent_path(), left = copy_of("n1", 24);
  fs::remove_all(lost);
  const auto said = start({.resume = "newest"});
  EXPECT_THAT(said, AllOf(HasSubstr("resuming from the copy of step 24 on "),
                          HasSubstr(left.string()), HasSubstr("newest checkpoint is of step 20")));
  expect_undisturbed();
}

TEST_F(RunCopiesOfRanks, ThatAreDamagedArePassedOver) {
  (void)start({.crash_at = 26});
  const auto damaged = copy_of("n0", 24), whole = copy_of("n1", 24);
  const auto flip = [](const fs::path& file) {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(-1, std::ios::end);
    bytes.put('\x5a');
  };
  flip(damaged / "model.safetensors");
  const auto said = start({.crash_at = 32, .resume = "newest"});
  EXPECT_THAT(said,
              AllOf(HasSubstr("passing over a copy on "), HasSubstr(damaged.string()),
                    HasSubstr("resuming from the copy of step 24 on "), HasSubstr(whole.string())));
  for (const auto* node : {"n0", "n1"}) flip(copy_of(node, 30) / "optimizer.safetensors");
  EXPECT_THAT(
      start({.resume = "newest"}),
      AllOf(HasSubstr("passing over a copy on "), Not(HasSubstr("from the copy")),
            HasSubstr("resuming from " + (folder / "run/checkpoints/step-00000024").string())));
  expect_undisturbed();
}

TEST_F(RunCopiesOfRanks, OfWhatWasDroppedDoNotCount) {
  (void)start({.crash_at = 32});
  const auto place = copy_of("n1", 30).parent_path();
  fs::rename(place, folder / "away");  // a node that is not there for a while
  const auto said = start({.crash_at = 26, .resume = "20"});
  EXPECT_THAT(said, AllOf(HasSubstr("resuming from " + (folder / "run/checkpoints").string()),
                          Not(HasSubstr("copy of step"))))
      << "a checkpoint that is named is the one";
  (void)copy_of("n0", 24);
  fs::remove_all(place);
  fs::rename(folder / "away", place);
  EXPECT_THAT(start({.resume = "newest"}), HasSubstr("resuming from the copy of step 24"));
  expect_undisturbed();
}

TEST_F(RunCopiesOfRanks, BehindABestOneThatHasNoCheckpointDoNotCount) {
  (void)start({.crash_at = 26});
  (void)copy_of("n0", 24);
  fs::remove_all(folder / "run" / "checkpoints" / "step-00000020");
  EXPECT_THAT(start({.resume = "newest"}), HasSubstr("and no node has a copy"));
}

TEST_F(RunCopiesOfRanks, AreNoneForAnotherRunOfTheSameFolder) {
  (void)start({.crash_at = 8});
  fs::remove_all(folder / "run");
  (void)start({.crash_at = 2});
  EXPECT_THAT(start({.resume = "newest"}), HasSubstr("and no node has a copy"));
}

TEST_F(RunCopiesOfRanks, AreAnExtraThatEndsNoRun) {
  fs::remove_all(folder / "n1");
  EXPECT_THAT(start({}), AllOf(HasSubstr("rank 2 (on "), HasSubstr((folder / "n1").string()),
                               HasSubstr("there are no copies of the state on this node")));
  EXPECT_TRUE(fs::is_empty(folder / "n0"));
  EXPECT_FALSE(fs::exists(folder / "n1"));
}

}  // namespace
}  // namespace kolo::testing
