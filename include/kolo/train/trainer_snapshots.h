#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>

#include "kolo/train/checkpoint/snapshot_memory.h"
#include "kolo/train/checkpoint_observer.h"
#include "kolo/train/observer.h"
#include "kolo/train/trainer.h"

namespace kolo {

struct SnapshotOptions {
  // Copies, which are written while training goes on; else the training's own tensors. Copies take
  // as much memory as the network and its optimizer's state (this rank's shard of them).
  bool asynchronous = true;
  int shard = 0, shards = 1;  // which part of the checkpoint this rank writes
  int writers_here = 1;       // ranks that write on this machine, each of which takes memory
};

// Snapshots of a trainer's state for a CheckpointObserver, in memory that is used again and again.
// It is an observer because it gets its memory in the background after the first step, when all
// that a step needs has been taken, or with the first snapshot if that comes before. Where the
// machine has not enough left, which `warn` is told once, snapshots are the training's own tensors,
// whose writing is waited for.
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
