#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kolo/base/clock.h"
#include "kolo/comm/communicator.h"
#include "kolo/data/loader.h"
#include "kolo/nn/network.h"
#include "kolo/optim/learning_rate.h"
#include "kolo/parallel/checks.h"
#include "kolo/parallel/device_clock.h"
#include "kolo/parallel/step_settings.h"
#include "kolo/parallel/training_step.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint/snapshot_memory.h"
#include "kolo/train/objective.h"
#include "kolo/train/observer.h"
#include "kolo/train/train_state.h"
#include "kolo/train/trained_network.h"

namespace kolo {

// A step's settings hold for all of the training. With virtual_ranks samples and dropout depend on
// the virtual rank, not on the rank, and the loaders are those of this rank's virtual ranks
// (DistributedSampler). kolo/parallel/step_conflicts.h tells which options exclude each other.
struct TrainerOptions : StepSettings {
  std::int64_t n_epochs = 1;
  // Ends the training after so many steps, with an epoch that is shorter.
  std::optional<std::int64_t> max_steps;
  // Stops, as when a rank asks to, once so many epochs are done and others are left. The same on
  // all ranks.
  std::optional<std::int64_t> stop_after_epochs = {};
  // Seed of dropout; a step's random numbers depend on seed, rank and step alone.
  std::uint64_t seed = 1;
  // Above 1: a rank cuts each of its batches in so many parts (at most one per sample) and adds up
  // their gradients pass by pass: the step of the whole batch, but for rounding, with the inner
  // results of one part only. Batch norms see parts.
  std::int64_t accumulation = 1;
  // Above 0: ends after so many epochs without a better validation.
  std::int64_t early_stopping_patience = 0;
  std::int64_t check_replicas_every = 0;  // above 0: compares all ranks' parameters (ReplicaCheck)
  // Above 0: after every so many steps a device is waited for, and observers find the network as
  // that step has left it (see Trainer). On the host they always do. The same on all ranks.
  std::int64_t settle_every = 0;
  // Records a step as a CUDA graph, for small networks that the host can't keep up with; does
  // nothing on the host. With several ranks only where NCCL averages. The current stream must be
  // the one of the Trainer's making, and not the default one.
  bool graphs = false;
  // Keeps only the inputs of the network's stages for backward (see kolo/nn/network.h), of a
  // network that the Trainer is given whole.
  bool recompute = false;
  // Asked at every step, on every rank; one yes stops all after that step, on a device after the
  // next one.
  std::function<bool()> stop_requested = [] { return false; };
  // Asked after every batch of a validation; one yes makes all ranks leave it and stop before the
  // epoch's end. A resumed run validates anew. Empty: a validation is not interrupted.
  std::function<bool()> stop_validation_requested = {};
  // Versions and settings that the results' bits depend on, noted in each checkpoint as
  // "made_with".
  nlohmann::json made_with = {};

  // True if max_steps ends the training before its epochs do: then schedules are over so many
  // steps.
  [[nodiscard]] bool ends_with_steps(std::int64_t steps_of_epoch) const;
};

struct CheckpointRequest {
  // Memory for copies, which are made in the pass that looks whether they are finite; none: the
  // checkpoint has the training's own tensors, which its next step changes.
  SnapshotMemory* memory = nullptr;
  // This rank's shard, where several ranks write what all of them have (plan_shards()). Buffers are
  // in the first one.
  int shard = 0, shards = 1;
};

// finished: all epochs or steps are done, or early_stopping_patience is at an end; stopped: a rank
// asked to.
enum class TrainOutcome { finished, stopped };

// The training loop: batches, loss, backward with overlapped averaging, fused optimizer, validation
// after each epoch. Every rank has one, made with the same arguments but for its own share of the
// data; weights and buffers become rank 0's. One thread calls it. The same ranks, options and data
// give the same bits.
//
// It computes on the device of the network's parameters. A device gets the next step before the
// numbers of the last one are read: observers hear of steps one step late, but for steps that are
// settled (TrainerOptions::settle_every, and the last one of an epoch or run).
class Trainer {
 public:
  // The loaders must outlive the trainer. Collective.
  Trainer(Communicator communicator, std::shared_ptr<Network> network, Objective objective,
          std::shared_ptr<const FlatOptimizer> optimizer, LearningRate learning_rate,
          Loader& training, Loader& validation, TrainerOptions options);
  // Trains a network that ranks may have parts of. `communicator`: all ranks, of whom equally many
  // have each part. The options seed, graphs and recompute are the network's affair and don't
  // count. Collective.
  Trainer(Communicator communicator, std::shared_ptr<TrainedNetwork> network,
          std::shared_ptr<const FlatOptimizer> optimizer, LearningRate learning_rate,
          Loader& training, Loader& validation, TrainerOptions options);
  Trainer(Trainer&&) = delete;

  // Observers must outlive run().
  void add_observer(Observer& observer) { observers_.push_back(&observer); }

  // Everything that another process needs to resume from here. Error: parameters or optimizer state
  // that are not finite, buffers that are NaN, or a step that is not settled (see
  // TrainerOptions::settle_every). Local.
  //
  // Collective where !has_whole_state(), at the same step, over the ranks of
  // TrainedNetwork::parts() or, where the optimizer is sharded, over all. The first of them gets
  // the whole, in memory of its own. One tensor, or one bucket of the state, travels at a time.
  [[nodiscard]] Checkpoint checkpoint(const CheckpointRequest& request = {}) const;
  // Bytes that the copies of checkpoint() take in a SnapshotMemory; 0 where that has none.
  [[nodiscard]] std::uint64_t checkpoint_bytes(const CheckpointRequest& request = {}) const;
  // True if each rank has the whole network, false if it has a part.
  [[nodiscard]] bool has_whole_network() const { return network_->parts() == nullptr; }
  // True if each rank has all that a checkpoint holds; a sharded optimizer has a part of the state.
  [[nodiscard]] bool has_whole_state() const {
    return has_whole_network() && !step_.optimizer().is_sharded();
  }

  // Takes rank 0's checkpoint (the others pass nothing) to all ranks. InputError when it is of
  // another network or optimizer: it names the first tensor that differs. The learning rate goes on
  // at the same part of the same epoch, whatever the ranks and batch are now; where the training
  // ends_with_steps(), after as many steps as before. Collective.
  void restore(const std::optional<Checkpoint>& of_root);

  // Error, on every rank, when an epoch leaves parameters that are not finite, or (unless that is
  // ignored) a validation loss that isn't; where samples of the validation are the reason, before
  // the first step.
  TrainOutcome run();

  // One step on a batch of any origin, outside of run(): for measuring, or for loops of one's own.
  // Collective.
  void step(const Batch& batch);
  // Waits until the device's steps are done, counted, and told to the observers. True: a rank has
  // asked to stop. Collective.
  bool settle();
  // Statistics of averaging since the last reset, or since this epoch began.
  [[nodiscard]] ReducerStatistics communication() const { return step_.reducer().statistics(); }
  void reset_communication() { step_.reducer().reset_statistics(); }

  // As TrainingStep::listen(). For measuring.
  void listen(std::function<void()> forward_is_done) { step_.listen(std::move(forward_is_done)); }

  [[nodiscard]] const TrainState& state() const { return state_; }
  [[nodiscard]] const torch::Device& device() const { return step_.arena()->device(); }
  [[nodiscard]] const BucketPlan& plan() const { return step_.arena()->plan(); }
  // Whether the ranks of a node share the optimizer's steps (see ArenaOptimizer).
  [[nodiscard]] bool shares_steps() const { return step_.optimizer().is_shared(); }

  // The sums over a loader's whole dataset (see objective.h), with rank 0's running statistics on
  // all ranks. Collective.
  [[nodiscard]] MetricSums evaluate(Loader& loader);
  // 1 without a loss scale.
  [[nodiscard]] double loss_scale() const { return step_.scaler() ? step_.scaler()->scale() : 1; }

 private:
  [[nodiscard]] TrainOutcome train_epoch();
  [[nodiscard]] std::optional<Batch> next_batch();
  // A step that the device may not have done yet.
  struct StepUnderWay {
    TrainingStep::Pending step;
    std::int64_t number = 0;
    std::int64_t position = 0;  // in the epoch, after it
    double learning_rate = 0;
  };

  // True: a rank asks to stop.
  [[nodiscard]] bool train_step(const Batch& batch);
  [[nodiscard]] bool settle(StepUnderWay step);
  [[nodiscard]] bool is_out_of_patience() const;
  [[nodiscard]] bool is_out_of_steps() const;
  // Rate of the step that follows `step` completed ones.
  [[nodiscard]] double rate_at(std::int64_t step) const;
  void require_finite_parameters() const;
  // Collective.
  void require_finite_validation(const MetricSums& validation, bool is_trained);
  [[noreturn]] void refuse_network(const std::string& problem, bool may_skip) const;
  // False: a rank asked to stop during the validation.
  [[nodiscard]] bool finish_epoch(double data_wait_seconds);
  // None when a rank asked to stop, as stop_requested (empty: never) tells.
  [[nodiscard]] std::optional<MetricSums> evaluate(Loader& loader,
                                                   const std::function<bool()>& stop_requested);
  [[nodiscard]] std::optional<MetricSums> validate();
  [[nodiscard]] TrainOutcome stop();
  void count_seconds();
  [[nodiscard]] bool note_if_best(const MetricSums& validation);
  // Collects the tensors of all parts of the network on the first rank that has one.
  [[nodiscard]] std::vector<NamedTensor> of_all_parts(std::vector<NamedTensor> mine) const;
  // Hands rank 0's tensors out to the ranks that have the parts.
  void hand_out(const std::vector<NamedTensor>& saved, const std::vector<NamedTensor>& mine) const;
  [[nodiscard]] nlohmann::json skipped_by_parameter() const;
  [[nodiscard]] std::vector<NamedTensor> trained_parameters() const;
  // Tensors to save, in the training's own memory.
  struct LiveTensors {
    std::vector<NamedTensor> parameters, buffers, optimizer;
  };
  [[nodiscard]] LiveTensors live_tensors(const CheckpointRequest& request) const;
  template <typename Hook>
  void notify(const Hook& hook);

  Communicator communicator_;
  std::shared_ptr<TrainedNetwork> network_;
  LearningRate learning_rate_;
  Loader& training_;
  Loader& validation_;
  TrainerOptions options_;
  TrainingStep step_;
  std::optional<ReplicaCheck> replica_check_;
  std::vector<Observer*> observers_;
  TrainState state_;
  DeviceClock clock_;
  // [1], on the device: 1 when this rank asks to stop; added up over the ranks with a step's sums.
  torch::Tensor step_notes_;
  bool asks_to_stop_ = false;  // value last written to step_notes_
  std::optional<StepUnderWay> under_way_;
  Stopwatch since_settled_;  // since the last step was, or the epoch began
  Stopwatch since_counted_;  // in the state's seconds
  DeviceTimeSum data_wait_;  // of the epoch
  // Steps by which the schedule is ahead of the state, in a run resumed with other ranks or
  // batches.
  std::int64_t schedule_ahead_ = 0;
  // Warm-up in steps of the run's beginning: resumed with other ranks or batches, it ends after as
  // many samples.
  struct Warmup {
    std::int64_t steps = 0;
    std::int64_t steps_of_epoch = 0;
  };
  Warmup warmup_;
  void restore_warmup(const nlohmann::json& state);
};

// Gives a network a checkpoint's parameters and buffers. InputError when it is of another network;
// it names the first tensor that differs.
void load_network(const Checkpoint& checkpoint, Network& network);

// Checks that a checkpoint fits a network and an optimizer, before anything is started: InputError
// that names the first difference.
void require_matching_checkpoint(const Checkpoint& checkpoint, const Network& network,
                                 const FlatOptimizer& optimizer);

}  // namespace kolo
