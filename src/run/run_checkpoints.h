#pragma once

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

// A rank's part in the checkpoints of a run: it writes all of them, or a shard, or hands over what
// it has of a network in parts, or nothing.
class RunCheckpoints {
 public:
  // Collective. The trainer must outlive it.
  RunCheckpoints(const RunConfig& config, const RunFolder& folder, const WorkShare& share,
                 const Communicator& communicator, const Trainer& trainer);

  // Adds its observer, where this rank has one; it must outlive the trainer's run().
  void attach_to(Trainer& trainer, CheckpointHooks hooks);

  // How checkpoints are written, in one line; empty: as always.
  [[nodiscard]] std::string describe() const;

 private:
  const Trainer& trainer_;
  bool has_part_ = false, is_root_ = false;  // this rank
  std::string warning_;
  CheckpointSaving saving_;
  CheckpointStore store_;
  std::optional<CheckpointObserver> observer_;
};

}  // namespace kolo
