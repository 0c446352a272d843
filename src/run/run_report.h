#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kolo/base/clock.h"
#include "kolo/comm/communicator.h"
#include "kolo/nn/network.h"
#include "kolo/optim/learning_rate.h"
#include "kolo/train/observe/progress.h"
#include "kolo/train/observe/run_log.h"
#include "kolo/train/observer.h"
#include "kolo/train/recorders.h"
#include "kolo/train/trainer.h"
#include "run/pipeline_share.h"
#include "run/prepared_run.h"
#include "run/resume.h"
#include "run/run_checkpoints.h"
#include "run/run_folder.h"
#include "run/run_lock.h"
#include "run/run_training.h"

namespace kolo {

// Notes every step in the lock of the run's folder, and ends a run whose folder was taken away: at
// the begin and the end of epochs, and every few seconds. The first of the observers, so that none
// makes the folder anew.
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

// Files and console of a run, and the observers that write to them; rank 0 alone has them.
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

// Lines of a run's log: its parts, where it resumes, how it ends.

// Ranks, communication, data, model, optimizer and rates, before training.
void log_set_up(RunLog& log, const PreparedRun& run, const Communicator& communicator,
                const Trainer& trainer, const LearningRate& rate, const ModelSummary& model);
void log_pipeline(RunLog& log, const PreparedRun& run, const std::optional<PipelineCut>& cut,
                  int ranks);
// The network's layers: a short list, or where to find a long one, which is written to model.txt.
void log_model(RunLog& log, const PreparedRun& run, const ModelSummary& summary);

// Where it goes on, and what is different from now on.
void log_resume(RunLog& log, const PreparedRun& run, const LoadedCheckpoint& from);

// Who has stopped the run at this state; empty: not known.
[[nodiscard]] std::string stopped_by(const RunContext& context, const TrainState& state);
// A stop on request; `by`: "SIGTERM", or empty.
void log_stop(RunLog& log, const PreparedRun& run, const std::string& by, const TrainState& state);

// The best, and where the results are.
void log_summary(RunLog& log, const PreparedRun& run, const RunRecorder& recorder,
                 const TrainState& state, const torch::Device& device);

}  // namespace kolo
