#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kolo/base/clock.h"
#include "kolo/comm/communicator.h"
#include "kolo/nn/loss.h"
#include "kolo/nn/network.h"
#include "kolo/optim/learning_rate.h"
#include "kolo/parallel/training_step.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/observe/history.h"
#include "kolo/train/observe/tensorboard.h"
#include "online/samples.h"

namespace kolo::online {

// Progress of the training; the same on all ranks that train.
struct TrainingProgress {
  std::int64_t steps = 0;
  std::int64_t skipped = 0;   // of these, left out: not finite
  std::int64_t arrivals = 0;  // samples that came, on all ranks
  std::int64_t stored = 0;    // of those, in reservoirs now
  double loss = 0;            // of the last step, over all ranks
  double learning_rate = 0;
};

// The steps of a network on samples of any origin, over the ranks that train.
class OnlineTrainer {
 public:
  // Collective.
  OnlineTrainer(const Communicator& ranks, std::shared_ptr<TensorsNetwork> network,
                const OnlineConfig& config, TensorsLoss loss);

  // One step, on what `samples` gives; `counts`: this rank's, of which all learn the sum. A rank
  // where that or the forward pass fails takes part without a gradient of its own, so nobody waits
  // for it and all have the same weights; afterwards it is an Error on all: its own there, a
  // CommunicationError elsewhere. Collective.
  void step(const std::function<Samples()>& samples, const SampleCounts& counts, const Call& call);
  // Whether training.max_steps are done.
  [[nodiscard]] bool is_done() const;

  [[nodiscard]] const TrainingProgress& progress() const { return progress_; }
  [[nodiscard]] const TensorsNetwork& network() const { return *network_; }

  // Tensors and counters for a checkpoint. Error where they aren't finite. Local.
  [[nodiscard]] Checkpoint checkpoint() const;
  // InputError where it is of another network or optimizer. Local.
  void require_fitting(const Checkpoint& saved) const;
  // Takes the first rank's, which fits, to all; the others pass nothing. Collective.
  void restore(const std::optional<Checkpoint>& of_first);

 private:
  struct Forward {
    torch::Tensor loss, numbers;
  };
  [[nodiscard]] Forward forward(const std::function<Samples()>& samples_of,
                                const SampleCounts& counts, std::exception_ptr& failure);

  Communicator ranks_;
  std::shared_ptr<TensorsNetwork> network_;
  TensorsLoss loss_;
  std::uint64_t seed_;
  bool stops_;  // at a loss that isn't finite, rather than leave the step out
  std::optional<std::int64_t> max_steps_;
  LearningRate learning_rate_;
  TrainingStep step_;
  TrainingProgress progress_;
};

// The record of a training, on the one rank that writes it: history.json and TensorBoard's events.
// Without a folder nothing is written.
class TrainingRecords {
 public:
  TrainingRecords(const OnlineConfig& config, int ranks);
  TrainingRecords(const TrainingRecords&) = delete;
  TrainingRecords& operator=(const TrainingRecords&) = delete;
  // Writes what was added.
  ~TrainingRecords();

  // A step is done; `time_step` is the simulation's.
  void add(const TrainingProgress& progress, std::int64_t time_step);
  void add_value(std::string_view name, std::int64_t step, double value);
  // Writes what was added, so that it is there whatever happens next.
  void flush();
  // Records after so many steps will be written anew.
  void go_back_to(std::int64_t steps);

 private:
  void keep_earlier_history();

  std::filesystem::path folder_;
  std::int64_t every_;
  int ranks_, batch_size_;
  History history_;
  bool is_own_ = false;  // history.json is of this training, or of the one it goes on with
  std::unique_ptr<TensorBoardWriter> events_;
  double loss_ = 0;  // summed up since the last record
  std::int64_t steps_ = 0;
  Stopwatch since_record_, since_flush_;
};

}  // namespace kolo::online
