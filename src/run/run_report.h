#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kolo/base/clock.h"
#include "kolo/comm/communicator.h"
#include "kolo/config/run_config.h"
#include "kolo/nn/network.h"
#include "kolo/optim/learning_rate.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/checkpoint_observer.h"
#include "kolo/train/observe/progress.h"
#include "kolo/train/observe/run_log.h"
#include "kolo/train/observer.h"
#include "kolo/train/recorders.h"
#include "kolo/train/trainer.h"
#include "run/pipeline_part.h"
#include "run/prepared_run.h"
#include "run/resume.h"
#include "run/run_folder.h"
#include "run/run_lock.h"
#include "run/run_training.h"
#include "run/work_part.h"

namespace kolo {

// Notes every step in the lock of the run's folder, and at the begin and the end of epochs and
// every few seconds ends a run whose folder was taken away. It comes before other observers, which
// would make the folder anew.
class StepNotes final : public Observer {
 public:
  explicit StepNotes(RunLock& lock) : lock_(lock) {}
  void on_start(const TrainState& state, const std::optional<MetricSums>&) override {
    lock_.note_step(state.step);
  }
  void on_step(const StepReport& report) override {
    constexpr double few_seconds = 5;
    lock_.note_step(report.state.step);
    if (since_look_.seconds() > few_seconds) look();
  }
  void on_epoch_begin(const TrainState&, std::int64_t, std::int64_t) override { look(); }
  void on_epoch_end(const EpochReport&) override { look(); }
  void on_stop(const TrainState&) override { look(); }
  void on_finish(const TrainState&) override { look(); }

 private:
  void look() {
    lock_.require_held();
    since_look_.restart();
  }

  RunLock& lock_;
  Stopwatch since_look_;
};

// Part of a rank in the checkpoints of a run: it writes them, or a shard, or sends its part of the
// network or the optimizer's state, or does nothing.
class RunCheckpoints {
 public:
  // Collective. The trainer must outlive it.
  RunCheckpoints(const RunConfig& config, const RunFolder& folder, const WorkPart& share,
                 const Communicator& communicator, const Trainer& trainer);

  // Adds its observer, where this rank has one; it must outlive the trainer's run().
  void attach_to(Trainer& trainer, CheckpointHooks hooks);

  // Line for the log; empty: checkpoints are written by rank 0, in the foreground.
  [[nodiscard]] std::string describe() const;

 private:
  const Trainer& trainer_;
  bool has_part_ = false, is_root_ = false;  // this rank
  std::string warning_;
  CheckpointSaving saving_;
  CheckpointStore store_;
  std::optional<CheckpointObserver> observer_;
};

// Files and console of a run, and the observers that write to them; on rank 0.
class RunRecords {
 public:
  // `steps`: of an epoch. `resumed`: later records are dropped.
  RunRecords(const RunConfig& config, const RunFolder& folder, const RunContext& context, int ranks,
             std::int64_t steps, const std::optional<ResumePoint>& resumed);
  RunRecords(const RunRecords&) = delete;
  RunRecords& operator=(const RunRecords&) = delete;
  ~RunRecords();

  // The records and the lock must outlive the trainer's run().
  void attach_to(Trainer& trainer, RunLock& lock);
  // Hooks that flush the records before each checkpoint, and note how the saving went.
  [[nodiscard]] CheckpointHooks of_checkpoints(RunLock& lock, Stopping& stopping);
  void flush() { recorder_.flush(); }

  [[nodiscard]] RunLog& log() { return log_; }
  [[nodiscard]] const RunRecorder& recorder() const { return recorder_; }

 private:
  RunLog log_;
  ProgressBar bar_;
  RunRecorder recorder_;
  ProgressReporter progress_;
  std::optional<StepNotes> notes_;
};

// Logs ranks, communication, data, model, optimizer and rates, before training.
void log_set_up(RunLog& log, const PreparedRun& run, const Communicator& communicator,
                const Trainer& trainer, const LearningRate& rate, const ModelSummary& model);
void log_pipeline(RunLog& log, const PreparedRun& run, const std::optional<PipelineCut>& cut,
                  int ranks);
// Logs the network's layers, or refers to model.txt for a long list of them.
void log_model(RunLog& log, const PreparedRun& run, const ModelSummary& summary);

// Logs the checkpoint that the run resumes from, and all differences.
void log_resume(RunLog& log, const PreparedRun& run, const LoadedCheckpoint& from);

// Logs a stop on request, and its reason where that is known.
void log_stop(RunLog& log, const PreparedRun& run, const RunContext& context,
              const TrainState& state);

// Logs the best epoch, and where the results are.
void log_summary(RunLog& log, const PreparedRun& run, const RunRecorder& recorder,
                 const TrainState& state, const torch::Device& device);

}  // namespace kolo
