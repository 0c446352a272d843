#pragma once

#include <optional>

#include "kolo/train/observe/progress.h"
#include "kolo/train/observe/run_log.h"
#include "kolo/train/recorders.h"
#include "kolo/train/trainer.h"
#include "run/resume.h"
#include "run/run_checkpoints.h"
#include "run/run_folder.h"
#include "run/run_lock.h"
#include "run/run_training.h"
#include "run/step_notes.h"

namespace kolo {

// What only rank 0 has: the files and the console of a run, and the observers that write to them.
class RunRecords {
 public:
  // `steps`: of an epoch. `resumed`: where the folder's run goes on from; what is recorded beyond
  // it is dropped.
  RunRecords(const RunConfig& config, const RunFolder& folder, const RunContext& context, int ranks,
             std::int64_t steps, const std::optional<ResumePoint>& resumed);
  RunRecords(const RunRecords&) = delete;
  RunRecords& operator=(const RunRecords&) = delete;
  ~RunRecords();

  // The records and the lock must outlive the trainer's run().
  void attach_to(Trainer& trainer, RunLock& lock);
  // Flushes the records before each checkpoint, and notes in them how the saving went.
  [[nodiscard]] RunCheckpoints::Hooks of_checkpoints(RunLock& lock, StopTime* stop_time);
  void flush();

  [[nodiscard]] RunLog& log() { return log_; }
  [[nodiscard]] const HistoryRecorder& history() const { return history_; }

 private:
  RunLog log_;
  ProgressBar bar_;
  HistoryRecorder history_;
  TensorBoardRecorder tensorboard_;
  ProgressReporter progress_;
  std::optional<StepNotes> notes_;
};

}  // namespace kolo
