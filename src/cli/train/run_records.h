#pragma once

#include <optional>

#include "cli/train/run_folder.h"
#include "cli/train/run_training.h"
#include "kolo/checkpoint/checkpoint_store.h"
#include "kolo/train/checkpoint_observer.h"
#include "kolo/train/recorders.h"
#include "kolo/train/trainer.h"

namespace kolo {

// What only rank 0 has: the files and the console of a run, and the observers that write to them.
class RunRecords {
 public:
  // `steps`: of an epoch. `resumed_step`: of the checkpoint that the run goes on from; what is recorded beyond it is
  // dropped.
  RunRecords(const RunConfig& config, const RunFolder& folder, const RunOptions& options, int ranks,
             std::int64_t steps, std::optional<std::int64_t> resumed_step);
  RunRecords(const RunRecords&) = delete;
  RunRecords& operator=(const RunRecords&) = delete;
  ~RunRecords();

  // The records must outlive the trainer's run().
  void attach_to(Trainer& trainer, const CheckpointConfig& config);

  [[nodiscard]] RunLog& log() { return log_; }
  [[nodiscard]] const HistoryRecorder& history() const { return history_; }

 private:
  RunLog log_;
  ProgressBar bar_;
  HistoryRecorder history_;
  TensorBoardRecorder tensorboard_;
  ProgressReporter progress_;
  CheckpointStore store_;
  std::optional<CheckpointObserver> checkpoints_;
};

}  // namespace kolo
