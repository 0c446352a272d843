#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kolo/comm/communicator.h"
#include "kolo/nn/loss.h"
#include "kolo/nn/network.h"
#include "kolo/optim/learning_rate.h"
#include "kolo/parallel/training_step.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "online/samples.h"

namespace kolo::online {

// What has been trained so far; the same on all ranks that train.
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

  // What a rank tells the others with a step.
  struct Counts {
    std::int64_t arrivals = 0, stored = 0;
  };
  // One step, on what `samples` gives. A rank where that or the forward pass fails takes part
  // without a gradient of its own, so nobody waits for it and all have the same weights; afterwards
  // it is an Error on all: its own there, a CommunicationError elsewhere. Collective.
  void step(const std::function<Samples()>& samples, const Counts& counts, const Call& call);
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
  [[nodiscard]] Forward forward(const std::function<Samples()>& samples_of, const Counts& counts,
                                std::exception_ptr& failure);

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

}  // namespace kolo::online
