#pragma once

#include <cstdint>
#include <optional>

#include "kolo/comm/device.h"
#include "kolo/train/train_state.h"

namespace kolo {

struct StepReport {
  const TrainState& state;  // after the step
  MetricSums sums;          // of this step, over all ranks
  double learning_rate = 0;
  // Seconds of this rank since the step before or the epoch's beginning, with waits for the batch.
  double seconds = 0;
};

struct EpochReport {
  const TrainState& state;  // after the epoch
  MetricSums training;      // as the steps saw it, dropout and all
  MetricSums validation;
  double learning_rate = 0;  // of the last step
  double seconds = 0;        // of training, without the validation
  // Seconds that this rank, or its device, waited for batches, and for other ranks' gradients.
  double data_wait_seconds = 0;
  double exposed_communication_seconds = 0;
  std::optional<DeviceMemoryUse> device_memory;  // of this rank's device
  bool is_best = false;  // no validation was more accurate, or had less loss without accuracy
  std::optional<double> loss_scale;  // as it is after the epoch; none: losses aren't scaled
  std::int64_t skipped_steps = 0;    // in this epoch, as loss or gradients were not finite
  std::int64_t top = 0;  // the sums' in_top are of so many largest outputs; 0: not counted

  [[nodiscard]] double samples_per_second() const { return training.samples / seconds; }
};

// True where something that is done every so many steps or epochs is due after this one. 0: never.
[[nodiscard]] constexpr bool is_due(std::int64_t done, std::int64_t every) {
  return every > 0 && done % every == 0;
}

// Looks on while a Trainer works: progress, logs, records, checkpoints. Observers are called in
// their order, on the trainer's thread; what they throw ends the training. They must not
// communicate, but for CheckpointObservers of a network in parts, which all ranks with a part have.
class Observer {
 public:
  virtual ~Observer() = default;

  // Before the first step of this process. `untrained`: the validation before training; none when
  // the run goes on from a checkpoint after that.
  virtual void on_start(const TrainState& /*state*/,
                        const std::optional<MetricSums>& /*untrained*/) {}
  // `steps`: of the whole epoch; `done`: of these before a resumed run goes on.
  virtual void on_epoch_begin(const TrainState& /*state*/, std::int64_t /*steps*/,
                              std::int64_t /*done*/) {}
  virtual void on_step(const StepReport& /*report*/) {}
  // Called in each validation, also the one before on_start(): 0 batches of this rank are done at
  // first, then one more each time.
  virtual void on_validation(std::int64_t /*done*/, std::int64_t /*batches*/) {}
  virtual void on_epoch_end(const EpochReport& /*report*/) {}
  // The training ends early because it was asked to; go on from this state later.
  virtual void on_stop(const TrainState& /*state*/) {}
  virtual void on_finish(const TrainState& /*state*/) {}
};

}  // namespace kolo
