#pragma once

#include <functional>
#include <optional>
#include <string>

#include "kolo/comm/communicator.h"
#include "kolo/config/run_config.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/checkpoint_observer.h"
#include "kolo/train/trainer.h"
#include "run/run_folder.h"
#include "run/work_share.h"

namespace kolo {

// Part of a rank in the checkpoints of a run: it writes them, or a shard, or sends its part of the
// network or the optimizer's state, or does nothing.
class RunCheckpoints {
 public:
  // Calls to the rank that keeps the records.
  struct Hooks {
    std::function<void()> before = [] {};  // each snapshot
    std::function<void(const SavedCheckpoint&)> on_saved = [](const auto&) {};
    std::function<void(const std::string&)> warn = [](const auto&) {};
  };

  // Collective. The trainer must outlive it.
  RunCheckpoints(const RunConfig& config, const RunFolder& folder, const WorkShare& share,
                 const Communicator& communicator, const Trainer& trainer);

  // Adds its observers; it must outlive the trainer's run().
  void attach_to(Trainer& trainer, Hooks hooks);

  // Line for the log; empty: checkpoints are written by rank 0, in the foreground.
  [[nodiscard]] std::string describe() const;

 private:
  const CheckpointConfig& config_;
  const Trainer& trainer_;
  bool has_part_ = false, is_root_ = false;  // this rank
  std::string warning_;
  SnapshotOptions options_;
  ShardWriter writer_;
  CheckpointStore store_;
  std::optional<TrainerSnapshots> snapshots_;
  std::optional<CheckpointObserver> observer_;
};

}  // namespace kolo
