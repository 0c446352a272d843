#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "kolo/base/clock.h"
#include "kolo/comm/communicator.h"
#include "kolo/nn/loss.h"
#include "kolo/nn/network.h"
#include "kolo/online/online_network.h"
#include "kolo/optim/learning_rate.h"
#include "kolo/parallel/training_step.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/observe/history.h"
#include "kolo/train/observe/tensorboard.h"
#include "online/samples.h"

namespace kolo::online {

// Training steps of a network over the training ranks, on samples of any origin.
class OnlineTrainer {
 public:
  // Collective.
  OnlineTrainer(const Communicator& ranks, std::shared_ptr<TensorsNetwork> network,
                const OnlineConfig& config, TensorsLoss loss);

  // Makes one step on what `samples` returns. `counts`: this rank's, which are summed over ranks.
  // `weight`: of this rank's loss in the mean over ranks, on average 1. A rank where `samples` or
  // the forward pass fails joins the step with zeros for its gradient, so all ranks keep the same
  // weights; then all throw: its own exception there, a CommunicationError elsewhere. Collective.
  void step(const std::function<Samples()>& samples, const SampleCounts& counts, const Call& call,
            double weight = 1);
  // Whether training.max_steps are done.
  [[nodiscard]] bool is_done() const;

  [[nodiscard]] const TickReport& progress() const { return progress_; }
  [[nodiscard]] const TensorsNetwork& network() const { return *network_; }

  // Tensors and counters for a checkpoint. Error if parameters aren't finite. Local.
  [[nodiscard]] Checkpoint checkpoint() const;
  // InputError if the checkpoint is of another network or optimizer. Local.
  void require_fitting(const Checkpoint& saved) const;
  // Restores the checkpoint that the first rank passes on all ranks; the others pass nothing.
  // Collective.
  void restore(const std::optional<Checkpoint>& of_first);

 private:
  Communicator ranks_;
  std::shared_ptr<TensorsNetwork> network_;
  TensorsLoss loss_;
  std::uint64_t seed_;
  bool stops_;  // at a loss that isn't finite
  std::optional<std::int64_t> max_steps_;
  LearningRate learning_rate_;
  TrainingStep step_;
  TickReport progress_;  // the same on all ranks that train
};

// Writes history.json and TensorBoard's events, on the first training rank; nothing without a
// folder.
class TrainingRecorder {
 public:
  TrainingRecorder(const OnlineConfig& config, int ranks);
  TrainingRecorder(const TrainingRecorder&) = delete;
  TrainingRecorder& operator=(const TrainingRecorder&) = delete;
  ~TrainingRecorder();

  // Takes note of a step, and makes a record where it is the first one at or after a multiple of
  // training.log_every. `time_step`: the simulation's.
  void add(const TickReport& progress, std::int64_t time_step);
  void add_value(std::string_view name, std::int64_t step, double value);
  // Writes all records to disk.
  void flush();
  // Drops the records after this many steps.
  void go_back_to(std::int64_t steps);

 private:
  void keep_earlier_history();

  std::filesystem::path folder_;
  std::int64_t every_;
  int ranks_, batch_size_;
  History history_;
  bool is_own_ = false;  // history.json is of this training, or of the one that it resumes
  std::unique_ptr<TensorBoardWriter> events_;
  double loss_ = 0;  // sum since the last record
  std::int64_t steps_ = 0;
  std::int64_t last_recorded_ = 0;  // step
  Stopwatch since_record_, since_flush_;
};

}  // namespace kolo::online
