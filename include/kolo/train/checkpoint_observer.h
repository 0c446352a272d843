#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <utility>

#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/checkpoint/snapshot_memory.h"
#include "kolo/train/observer.h"
#include "kolo/train/trainer.h"

// The observer that saves checkpoints while a training goes on.
namespace kolo {

struct CheckpointSaving {
  std::int64_t every_epochs = 1;  // 0: not by epochs
  std::int64_t every_steps = 0;   // 0: not by steps
  // Copies of the state are written while training goes on; false: training waits while its own
  // tensors are written. A copy takes as much memory as the network and its optimizer's state (this
  // rank's shard of them).
  bool asynchronous = true;
  ShardWriter shard = {};  // one of several that ranks write together; the first one tells
  int writers_here = 1;    // ranks that write on this machine, each of which takes memory
};

struct SavedCheckpoint {
  std::filesystem::path path;
  std::int64_t step = 0;
  double stall_seconds = 0;   // that training stood still for it, of which
  double waited_seconds = 0;  // for the one before to be written
  double seconds = 0;         // that writing it took
};

// Functions that a CheckpointObserver calls, on the trainer's thread.
struct CheckpointHooks {
  std::function<void()> before = [] {};  // the state is copied
  std::function<void(const SavedCheckpoint&)> on_saved = [](const auto&) {};
  std::function<void(const std::string&)> warn = [](const auto&) {};
};

// Saves a trainer's checkpoints: by its schedule, when it is asked to stop, and at the end.
//
// A thread writes each copy: the next save waits for the one before, a stop and the end for all. An
// Error of the writing comes out of the next call. Memory for copies is taken after the first step,
// when a step's own memory has been taken, or with the first copy. Where the machine has too
// little, which is warned of once, training waits while its own tensors are written.
class CheckpointObserver final : public Observer {
 public:
  // The trainer and the store must outlive it. Without a store this rank takes part in the
  // checkpoints that another one saves, by the same schedule.
  CheckpointObserver(const Trainer& trainer, CheckpointStore* store, CheckpointSaving saving,
                     CheckpointHooks hooks = {})
      : trainer_(trainer), store_(store), saving_(std::move(saving)), hooks_(std::move(hooks)) {}

  void on_start(const TrainState& state, const std::optional<MetricSums>& untrained) override;
  void on_step(const StepReport& report) override;
  void on_validation(std::int64_t done, std::int64_t batches) override;
  void on_epoch_end(const EpochReport& report) override;
  void on_stop(const TrainState& state) override;
  void on_finish(const TrainState& state) override;

  // Bytes of a copy; 0 where none are made.
  [[nodiscard]] std::uint64_t copy_bytes() const;

 private:
  void save(std::int64_t step, bool is_best);
  void save_last(const TrainState& state);
  void get_memory();
  [[nodiscard]] SnapshotMemory* memory();
  void finish_writing();
  void look_at_writing();

  const Trainer& trainer_;
  CheckpointStore* store_;
  CheckpointSaving saving_;
  CheckpointHooks hooks_;
  SavedCheckpoint on_its_way_;    // whose path and seconds the writing thread fills in
  std::int64_t last_saved_ = -1;  // step
  bool is_memory_asked_for_ = false;
  std::future<std::optional<SnapshotMemory>> coming_memory_;
  std::optional<SnapshotMemory> memory_;
  std::future<void> writing_;  // declared last: its destructor waits for the writing thread
};

}  // namespace kolo
