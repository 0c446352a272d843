#pragma once

#include <optional>

#include "kolo/base/clock.h"
#include "kolo/checkpoint/checkpoint_store.h"
#include "kolo/comm/communicator.h"
#include "kolo/optim/learning_rate.h"
#include "kolo/train/checkpoint_observer.h"
#include "kolo/train/recorders.h"
#include "kolo/train/trainer.h"
#include "run/resume.h"
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
  void attach_to(Trainer& trainer, const CheckpointConfig& config, RunLock& lock);

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
  std::optional<StepNotes> notes_;
};

// What a run says of itself besides its epochs. For rank 0.

// Ranks, communication, data, model, optimizer and rates, before training.
void log_set_up(RunLog& log, const PreparedRun& run, const Communicator& communicator,
                const Trainer& trainer, const LearningRate& rate);

// The network's layers: a short list, or where to find a long one, which is written to model.txt.
void log_model(RunLog& log, const PreparedRun& run, const RunOptions& options);

// Where it goes on, and what is different from now on.
void log_resume(RunLog& log, const PreparedRun& run, const CheckpointStore::Loaded& from);

// A stop on request; `by`: "SIGTERM", or empty.
void log_stop(RunLog& log, const PreparedRun& run, const std::string& by, const TrainState& state);

// The best, and where the results are.
void log_summary(RunLog& log, const PreparedRun& run, const RunRecords& records,
                 const TrainState& state);

}  // namespace kolo
