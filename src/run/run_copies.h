#pragma once

#include <functional>
#include <optional>
#include <string>

#include "kolo/checkpoint/checkpoint_store.h"
#include "kolo/checkpoint/local_folder.h"
#include "kolo/comm/communicator.h"
#include "kolo/config/run_config.h"
#include "kolo/train/state_copies.h"
#include "kolo/train/trainer.h"
#include "kolo/train/trainer_snapshots.h"
#include "run/run_folder.h"
#include "run/work_share.h"

namespace kolo {

// A rank's part in the copies of the run's state that each node keeps on storage of its own between
// the checkpoints (checkpoint.local_folder), so that no node's loss costs more than the steps since
// the last copy. The first rank of each node writes the whole state, which it has, without any
// communication but for batch norm's running statistics. Of a network in parts rank 0 alone has the
// whole, so that its node alone has copies.
class RunCopies {
 public:
  // What the rank that keeps the records has to do and to hear; others say on stderr what goes
  // wrong.
  struct Hooks {
    std::function<void()> before = [] {};  // a copy is made
    std::function<void(const std::string&)> warn = {};
  };

  // `folder` and `begin` are rank 0's: this start, which run.json has noted. Copies from after it
  // are removed, which belong to what the run drops, and those that other runs have left here a day
  // ago. Collective. The trainer must outlive it.
  RunCopies(const RunConfig& config, const RunFolder& folder, const RunBegin& begin,
            const WorkShare& share, const Communicator& communicator, const Trainer& trainer);

  // Adds its observers, on every rank; it must outlive the trainer's run().
  void attach_to(Trainer& trainer, Hooks hooks);

  // The run has ended and is saved, or stopped and saved: no copies are wanted any more. Waits for
  // the other ranks, among them the one that saves. Collective.
  void remove(const Communicator& communicator);

  // Where copies go and what they take, in one line; empty: this rank writes none.
  [[nodiscard]] std::string describe() const;

 private:
  void prepare(std::int64_t from_step);
  [[nodiscard]] std::optional<Snapshot> take();
  [[nodiscard]] std::uint64_t bytes() const;

  const CheckpointConfig& config_;
  const Trainer& trainer_;
  std::string start_;      // its id
  bool is_first_of_node_;  // this rank
  bool has_part_ = false;  // of what is taken on several ranks together
  bool shares_buffers_;
  bool is_writer_ = false;
  std::function<void(const std::string&)> warn_;
  std::string warning_;
  LocalFolder local_;
  CheckpointStore store_;
  std::optional<TrainerSnapshots> snapshots_;
  std::optional<StateCopies> observer_;
};

}  // namespace kolo
