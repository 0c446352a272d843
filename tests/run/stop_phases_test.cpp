// Requests to stop in each phase of a run: it saves, and the resumed run has the bits of one that
// was not stopped.
#include <array>
#include <atomic>
#include <csignal>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "kolo/base/file.h"
#include "kolo/comm/threads.h"
#include "kolo/run/run.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/observe/history.h"
#include "support/process.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using Send = std::function<void()>;

bool never() {
  return false;
}

// Sends a request when the run comes to a named phase.
class RequestIn final : public Observer {
 public:
  RequestIn(std::string phase, Send send) : phase_(std::move(phase)), send_(std::move(send)) {}

  void on_start(const TrainState& state, const std::optional<MetricSums>&) override {
    has_started_ = true;
    come_to("the start", state.step);
  }
  void on_epoch_begin(const TrainState& state, std::int64_t, std::int64_t) override {
    come_to(fmt::format("the begin of epoch {}", state.epoch + 1), state.step);
  }
  // Called after the run's own observers: a checkpoint is being written after each third step.
  void on_step(const StepReport& report) override {
    step_ = report.state.step;
    come_to(fmt::format("step {}", step_), step_);
  }
  void on_validation(std::int64_t done, std::int64_t batches) override {
    const auto* const which = has_started_ ? "a validation" : "the validation before training";
    const auto* const where = done == 0 ? "begin" : done == batches ? "end" : "midst";
    come_to(fmt::format("the {} of {}", where, which), step_);
  }
  void on_epoch_end(const EpochReport& report) override {
    come_to(fmt::format("the end of epoch {}", report.state.epoch), report.state.step);
  }
  void on_finish(const TrainState& state) override { come_to("the end", state.step); }

  // Step at which the request was sent; -1: not yet.
  std::int64_t sent_at = -1;

 private:
  void come_to(const std::string& phase, std::int64_t step) {
    if (phase != phase_ || sent_at >= 0) return;
    sent_at = step;
    send_();
  }

  std::string phase_;
  Send send_;
  bool has_started_ = false;
  std::int64_t step_ = 0;
};

// An epoch has 8 steps for one rank and 4 for two, a validation 4 and 2 batches.
class StopPhases : public ::testing::Test {
 protected:
  [[nodiscard]] ConfigSource source(const std::string& output) const {
    return {config_, {}, settings_, {}, folder_ / output};
  }

  // Returns the status, alike on all ranks.
  int run(const std::string& output, int ranks, RunOptions options, Observer* observer = nullptr) {
    RunComponents components;
    if (observer != nullptr) components.observers = {observer};
    options.console = &console_;
    if (ranks == 1) return kolo::run(source(output), components, options);
    std::atomic<int> all = 0, status = 0;
    run_as_threads(ranks, [&](const Communicator& communicator) {
      auto mine = options;
      mine.communicator = communicator;
      const int of_rank = kolo::run(source(output), components, mine);
      all += of_rank;
      if (communicator.rank() == 0) status = of_rank;
    });
    EXPECT_EQ(all, ranks * status);
    return status;
  }

  [[nodiscard]] std::optional<LoadedCheckpoint> newest(const std::string& output) const {
    return CheckpointStore({folder_ / output / "checkpoints"}).load_newest([](const auto& problem) {
      ADD_FAILURE() << problem;
    });
  }

  [[nodiscard]] std::string bits(const std::string& output) const {
    const auto path = newest(output).value().path;
    return read_text_file(path / "model.safetensors") +
           read_text_file(path / "optimizer.safetensors");
  }

  // Expects the resumed run to end like `whole`.
  void expect_saved(const RequestIn& request, const std::string& output, int ranks,
                    const std::string& whole) {
    ASSERT_GE(request.sent_at, 0) << "there is no such phase";
    const auto saved = newest(output);
    ASSERT_TRUE(saved.has_value());
    EXPECT_GE(saved->step, request.sent_at);
    EXPECT_LE(saved->step, request.sent_at + 1) << "within a step";
    ASSERT_EQ(run(output, ranks, {.resume = "newest", .stop_requested = never}), 0);
    EXPECT_EQ(newest(output)->step, newest(whole)->step);
    EXPECT_TRUE(bits(output) == bits(whole));
    EXPECT_EQ(History::read(folder_ / output / "history.json").epochs().size(), 3U);
  }

  std::vector<std::string> settings_;
  TemporaryFolder folder_;
  std::filesystem::path config_ =
      folder_.write("small.yaml",
                    "{data: {name: dummy, input_shape: [1, 28, 28], n_train: 64, n_valid: 16},\n"
                    " model: {name: mnist_net}, optimizer: {name: adam, lr: 0.01},\n"
                    " training: {batch_size: 8, n_epochs: 2, validation_batch_size: 4},\n"
                    " checkpoint: {every_steps: 3}, device: {intra_threads: 1}}\n");
  std::ostringstream console_;
};

TEST_F(StopPhases, ASignalIsAnsweredInEach) {
  ASSERT_EQ(run("whole", 1, {.stop_requested = never}), 0);
  const std::vector<std::string> phases{"the begin of the validation before training",
                                        "the begin of epoch 1",
                                        "step 1",
                                        "step 3",  // while a checkpoint is written
                                        "step 8",  // the last of an epoch
                                        "the midst of a validation",
                                        "the end of a validation",
                                        "the end of epoch 1"};
  for (std::size_t i = 0; i < phases.size(); ++i) {
    SCOPED_TRACE(phases[i]);
    const auto output = fmt::format("run-{}", i);
    constexpr std::array signals{SIGTERM, SIGINT, SIGUSR1};
    RequestIn request(phases[i], [&] { std::raise(signals.at(i % 3)); });
    EXPECT_EQ(run(output, 1, {}, &request), exit_stopped);
    EXPECT_TRUE(says(console_.str(), {"stopped by "}));
    expect_saved(request, output, 1, "whole");
    console_.str("");
  }
}

TEST_F(StopPhases, ARequestToOneOfSeveralRanksIsAnsweredByAll) {
  settings_ = {"model.dropout=0"};  // whose masks threads would share
  ASSERT_EQ(run("whole", 2, {.stop_requested = never}), 0);
  const std::vector<std::string> phases{"the begin of the validation before training", "step 3",
                                        "step 4",  // the last of an epoch
                                        "the midst of a validation"};
  for (std::size_t i = 0; i < phases.size(); ++i) {
    SCOPED_TRACE(phases[i]);
    const auto output = fmt::format("run-{}", i);
    // Only rank 0's thread hears it.
    std::atomic<bool> is_requested = false;
    std::thread::id told;
    RequestIn request(phases[i], [&] {
      told = std::this_thread::get_id();
      is_requested = true;
    });
    const auto hears = [&] { return is_requested && told == std::this_thread::get_id(); };
    EXPECT_EQ(run(output, 2, {.stop_requested = hears}, &request), exit_stopped);
    EXPECT_TRUE(says(console_.str(), {"stopped on request at step"}));
    expect_saved(request, output, 2, "whole");
  }
}

TEST_F(StopPhases, WhatIsDoneIsDone) {
  RequestIn request("the end", [] { std::raise(SIGTERM); });
  EXPECT_EQ(run("run", 1, {.timeline = true}, &request), 0);
  EXPECT_EQ(request.sent_at, 16);
  EXPECT_EQ(newest("run")->step, 16);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run" / "timeline.json"));
}

// A process that has nothing to save yet ends wherever it is.
TEST_F(StopPhases, WhilePreparingTheProcessEndsAtOnce) {
  RunComponents components;
  components.datasets = [](const RunConfig&, const DataReading&) -> Datasets {
    std::raise(SIGTERM);
    while (true) ::pause();
  };
  const auto result = run_in_fork(
      [&] { return run_main([&] { return kolo::run(source("run"), components, {}); }); });
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, exit_stopped);
  EXPECT_TRUE(says(result.errors, {"kolo: stopped by SIGTERM before the training began"}));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

}  // namespace
}  // namespace kolo::testing
