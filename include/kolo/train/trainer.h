#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kolo/checkpoint/checkpoint_store.h"
#include "kolo/comm/communicator.h"
#include "kolo/data/loader.h"
#include "kolo/nn/loss.h"
#include "kolo/nn/network.h"
#include "kolo/optim/learning_rate.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/gradient_reducer.h"
#include "kolo/parallel/timeline.h"
#include "kolo/train/observer.h"
#include "kolo/train/train_state.h"

namespace kolo {

struct TrainerOptions {
  std::int64_t epochs = 1;
  std::uint64_t seed =
      1;  // of dropout; a step's random numbers depend on seed, rank and step alone
  BucketLimits buckets;
  ReducerOptions reducer;
  // Asked at every step, on every rank; when one rank says yes, all stop after that step. Default:
  // never.
  std::function<bool()> stop_requested = [] { return false; };
  // Is told of data wait, step, forward, backward, each bucket's update and validation.
  Timeline timeline;
};

enum class TrainOutcome { finished, stopped };

// The training loop: batches, loss, backward with overlapped averaging, fused optimizer, validation
// after each epoch. Every rank has one, made with the same arguments but for its own share of the
// data. One thread calls it.
//
// Weights and buffers become rank 0's when it is made. Training is deterministic: the same ranks,
// options and data give the same bits.
class Trainer {
 public:
  // The loaders must outlive the trainer. Collective.
  Trainer(Communicator communicator, std::shared_ptr<Network> network, LossFunction loss,
          std::shared_ptr<const FlatOptimizer> optimizer, LearningRate learning_rate,
          Loader& training, Loader& validation, TrainerOptions options);

  // Observers must outlive run().
  void add_observer(Observer& observer) { observers_.push_back(&observer); }

  // Everything another process needs to go on from here.
  [[nodiscard]] Checkpoint checkpoint() const;

  // Takes rank 0's checkpoint (the others pass nothing) to all ranks. InputError when it is of
  // another network or optimizer: it names the first tensor that differs. Collective.
  void restore(const std::optional<Checkpoint>& of_root);

  // Trains until all epochs are done or a stop was requested.
  TrainOutcome run();

  [[nodiscard]] const TrainState& state() const { return state_; }
  [[nodiscard]] const BucketPlan& plan() const { return arena_->plan(); }

  // The mean loss and accuracy over a loader's whole dataset, each sample counted once if the
  // loader's sampler draws it once. In evaluation mode. Collective.
  [[nodiscard]] MetricSums evaluate(Loader& loader);

 private:
  [[nodiscard]] TrainOutcome train_epoch();
  [[nodiscard]] std::optional<Batch> next_batch();
  // True: a rank asks to stop.
  [[nodiscard]] bool train_step(const Batch& batch);
  void update_parameters(double rate);
  void finish_epoch(double data_wait_seconds);
  void seed_step() const;
  template <typename Hook>
  void notify(const Hook& hook);

  Communicator communicator_;
  std::shared_ptr<Network> network_;
  LossFunction loss_;
  LearningRate learning_rate_;
  Loader& training_;
  Loader& validation_;
  TrainerOptions options_;
  std::shared_ptr<ParameterArena> arena_;
  ArenaOptimizer optimizer_;
  GradientReducer reducer_;
  std::vector<Observer*> observers_;
  TrainState state_;
  bool is_resumed_ = false;
};

// Checks that a checkpoint fits a network and an optimizer, before anything is started: InputError
// that names the first difference.
void require_matching_checkpoint(const Checkpoint& checkpoint, const Network& network,
                                 const FlatOptimizer& optimizer);

}  // namespace kolo
