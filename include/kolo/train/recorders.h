#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "kolo/base/clock.h"
#include "kolo/train/observe/history.h"
#include "kolo/train/observe/progress.h"
#include "kolo/train/observe/run_log.h"
#include "kolo/train/observe/tensorboard.h"
#include "kolo/train/observer.h"

// Observers that write down how a training goes. For rank 0.
namespace kolo {

// Steps between records, with which a run of so many epochs has at most 500.
[[nodiscard]] std::int64_t thin_record_interval(std::int64_t epochs, std::int64_t steps_of_epoch);

// Writes history.json and an event file of TensorBoard: a record an epoch, and one every
// `log_every` steps (0: none). Both are on disk at each epoch's end, `unwritten` seconds after the
// last time at most, so that others see that the run is alive, and after flush(), which is due
// before a checkpoint.
//
// Scalars of an epoch: loss, accuracy and top_accuracy, each /train and /validation, learning_rate,
// samples_per_second, data_wait_seconds, exposed_communication_seconds and loss_scale, where known;
// of a step: loss, accuracy, learning_rate and samples_per_second of step/. A resumed run takes out
// of its folder's event files what it will record anew; `history` is cut already.
class RunRecorder final : public Observer {
 public:
  RunRecorder(History history, const std::filesystem::path& folder, std::int64_t log_every,
              double unwritten = 30);

  void on_start(const TrainState& state, const std::optional<MetricSums>& untrained) override;
  void on_epoch_begin(const TrainState& state, std::int64_t steps, std::int64_t done) override;
  void on_step(const StepReport& report) override;
  void on_epoch_end(const EpochReport& report) override;
  void on_stop(const TrainState& state) override;
  void on_finish(const TrainState& state) override;

  // Brings all records to the disk.
  void flush();
  // Adds a checkpoint that is there; it is written with the next record.
  void add(const CheckpointRecord& record);

  // Seconds of training an epoch took on average; 0 before the first.
  [[nodiscard]] double mean_epoch_seconds() const;
  // Best of the validations' top accuracies, where they were counted.
  [[nodiscard]] std::optional<double> best_top_accuracy() const;

 private:
  void write();

  History history_;
  std::filesystem::path file_;  // history.json
  TensorBoardWriter events_;
  std::int64_t log_every_;
  double unwritten_;
  bool is_written_ = false;
  std::int64_t peak_device_bytes_ = 0;  // 0: there is no device
  Stopwatch since_written_;
};

// The progress bar, of epochs and validations, and a line per epoch in the log.
class ProgressReporter final : public Observer {
 public:
  // `unit`: what a sample is called.
  ProgressReporter(ProgressBar& bar, RunLog& log, std::int64_t epochs, std::string unit = "images");

  void on_start(const TrainState& state, const std::optional<MetricSums>& untrained) override;
  void on_epoch_begin(const TrainState& state, std::int64_t steps, std::int64_t done) override;
  void on_step(const StepReport& report) override;
  void on_validation(std::int64_t done, std::int64_t batches) override;
  void on_epoch_end(const EpochReport& report) override;
  void on_stop(const TrainState& state) override;

 private:
  ProgressBar& bar_;
  RunLog& log_;
  std::int64_t epochs_;
  std::string unit_;
  std::int64_t steps_done_ = 0;  // of the epoch
  double samples_before_ = 0;    // of the epoch, before this process went on with it
  Stopwatch since_begin_;
};

}  // namespace kolo
