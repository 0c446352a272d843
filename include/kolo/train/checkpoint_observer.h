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

struct CheckpointSchedule {
  std::int64_t every_epochs = 1;  // 0: not by epochs
  std::int64_t every_steps = 0;   // 0: not by steps
};

// Content of a checkpoint that a CheckpointObserver saves.
struct Snapshot {
  Snapshot(Checkpoint checkpoint, bool its_own = false)  // NOLINT: one is as good as the other
      : content(std::move(checkpoint)), is_copy(its_own) {}

  Checkpoint content;
  bool is_copy = false;  // its tensors are its own, so training may go on while they are written
};

struct SavedCheckpoint {
  std::filesystem::path path;
  std::int64_t step = 0;
  double stall_seconds = 0;   // that training stood still for it, of which
  double waited_seconds = 0;  // for the one before to be written
  double seconds = 0;         // that writing it took
};

// Saves checkpoints: by its schedule, when the training is asked to stop, and at the end.
//
// A snapshot that is a copy is written in the background, one at a time: the next save waits for
// the one before, and a stop and the end for all. An Error of the writing comes out of the next
// call.
class CheckpointObserver final : public Observer {
 public:
  // `snapshot` gives what is to be saved (Trainer::checkpoint, TrainerSnapshots::take). `on_saved`
  // is told on the trainer's thread. `shard`: one of several that ranks write together, each with
  // an observer of the same schedule; the first one tells. The store must outlive the observer.
  CheckpointObserver(
      CheckpointStore& store, CheckpointSchedule schedule, std::function<Snapshot()> snapshot,
      std::function<void(const SavedCheckpoint&)> on_saved = [](const auto&) {},
      ShardWriter shard = {});
  // Takes part in the snapshots that another rank saves, by the same schedule.
  CheckpointObserver(CheckpointSchedule schedule, std::function<Snapshot()> snapshot);

  void on_start(const TrainState& state, const std::optional<MetricSums>& untrained) override;
  void on_step(const StepReport& report) override;
  void on_validation(std::int64_t done, std::int64_t batches) override;
  void on_epoch_end(const EpochReport& report) override;
  void on_stop(const TrainState& state) override;
  void on_finish(const TrainState& state) override;

 private:
  void save(std::int64_t step, bool is_best);
  void save_last(const TrainState& state);
  void tell(const std::optional<WrittenCheckpoint>& written);

  std::optional<CheckpointWriter> writer_;  // none: another rank saves
  CheckpointSchedule schedule_;
  std::function<Snapshot()> snapshot_;
  std::function<void(const SavedCheckpoint&)> on_saved_;
  SavedCheckpoint on_its_way_;    // but for what is known when it is written
  std::int64_t last_saved_ = -1;  // step
};

struct SnapshotOptions {
  // Copies, which are written while training goes on; else the training's own tensors. Copies take
  // as much memory as the network and its optimizer's state (this rank's shard of them).
  bool asynchronous = true;
  int shard = 0, shards = 1;  // which part of the checkpoint this rank writes
  int writers_here = 1;       // ranks that write on this machine, each of which takes memory
};

// Snapshots of a trainer's state for a CheckpointObserver, in memory that is used again and again.
// It observes because it gets its memory after the first step, when all that a step needs has been
// taken, or with the first snapshot. Where the machine has not enough left, which `warn` is told
// once, snapshots are the training's own tensors, whose writing is waited for.
class TrainerSnapshots final : public Observer {
 public:
  // The trainer must outlive it.
  TrainerSnapshots(
      const Trainer& trainer, const SnapshotOptions& options,
      std::function<void(const std::string&)> warn = [](const auto&) {});

  void on_step(const StepReport& report) override;

  // Takes all that training needs to go on from here (Trainer::checkpoint()). The tensors of the
  // copy before are overwritten: whoever writes them must be done.
  [[nodiscard]] Snapshot take();

  // Bytes of a copy; 0 where none are made.
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  void get_memory();

  const Trainer& trainer_;
  SnapshotOptions options_;
  std::function<void(const std::string&)> warn_;
  std::future<std::optional<SnapshotMemory>> coming_;
  bool is_asked_for_ = false;
  std::optional<SnapshotMemory> memory_;
};

}  // namespace kolo
