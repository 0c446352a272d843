#pragma once

#include <cstdint>
#include <functional>

#include "kolo/checkpoint/checkpoint_store.h"
#include "kolo/train/observer.h"

namespace kolo {

struct CheckpointSchedule {
  std::int64_t every_epochs = 1;  // 0: not by epochs
  std::int64_t every_steps = 0;   // 0: not by steps
  bool at_start = false;          // one of step 0
};

// Saves checkpoints: by its schedule, when the training is asked to stop, and at the end. For rank
// 0.
class CheckpointObserver final : public Observer {
 public:
  // `snapshot` gives what is to be saved (Trainer::checkpoint). The store must outlive the
  // observer.
  CheckpointObserver(
      CheckpointStore& store, CheckpointSchedule schedule, std::function<Checkpoint()> snapshot,
      std::function<void(const std::filesystem::path&)> on_saved = [](const auto&) {});

  void on_start(const TrainState& state, const std::optional<MetricSums>& untrained) override;
  void on_step(const StepReport& report) override;
  void on_epoch_end(const EpochReport& report) override;
  void on_stop(const TrainState& state) override;
  void on_finish(const TrainState& state) override;

 private:
  void save(std::int64_t step, bool is_best);

  CheckpointStore& store_;
  CheckpointSchedule schedule_;
  std::function<Checkpoint()> snapshot_;
  std::function<void(const std::filesystem::path&)> on_saved_;
  std::int64_t last_saved_ = -1;  // step
};

}  // namespace kolo
