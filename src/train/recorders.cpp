#include "kolo/train/recorders.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/machine.h"

namespace kolo {

namespace {

EpochRecord record_of(const EpochReport& report) {
  const auto &training = report.training, &validation = report.validation;
  EpochRecord record{.epoch = report.state.epoch,
                     .step = report.state.step,
                     .loss = training.mean_loss(),
                     .accuracy = training.accuracy(),
                     .val_loss = validation.mean_loss(),
                     .val_accuracy = validation.accuracy(),
                     .lr = report.learning_rate,
                     .seconds = report.seconds,
                     .samples_per_second = report.samples_per_second(),
                     .data_wait_seconds = report.data_wait_seconds,
                     .exposed_communication_seconds = report.exposed_communication_seconds,
                     .time = wall_time()};
  if (report.top > 0) {
    record.top_accuracy = training.top_accuracy();
    record.val_top_accuracy = validation.top_accuracy();
  }
  return record;
}

}  // namespace

std::int64_t thin_record_interval(std::int64_t epochs, std::int64_t steps_of_epoch) {
  constexpr double most_records = 500,
                   longest = 1LL << 62;  // steps may be more than an integer has
  const double steps = static_cast<double>(epochs) * static_cast<double>(steps_of_epoch);
  return static_cast<std::int64_t>(std::clamp(std::ceil(steps / most_records), 1., longest));
}

HistoryRecorder::HistoryRecorder(History history, std::filesystem::path file,
                                 std::int64_t log_every, double unwritten)
    : history_(std::move(history)),
      file_(std::move(file)),
      log_every_(log_every),
      unwritten_(unwritten) {}

void HistoryRecorder::flush() {
  if (!is_written_) write();
}

void HistoryRecorder::add(const CheckpointRecord& record) {
  history_.add(record);
  is_written_ = false;
}

void HistoryRecorder::write() {
  history_.write(file_);
  is_written_ = true;
  since_written_.restart();
}

void HistoryRecorder::on_start(const TrainState& state,
                               const std::optional<MetricSums>& untrained) {
  if (untrained)
    history_.add(EpochRecord{.step = state.step,
                             .val_loss = untrained->mean_loss(),
                             .val_accuracy = untrained->accuracy(),
                             .time = wall_time()});
  write();
}

void HistoryRecorder::on_epoch_begin(const TrainState& state, std::int64_t steps,
                                     std::int64_t done) {
  history_.begin({state.epoch + 1, state.step + steps - done});
}

void HistoryRecorder::on_step(const StepReport& report) {
  if (is_due(report.state.step, log_every_)) {
    history_.add(StepRecord{report.state.step, report.sums.mean_loss(), report.sums.accuracy(),
                            report.learning_rate, report.sums.samples / report.seconds,
                            wall_time()});
    is_written_ = false;
  }
  if (!is_written_ && since_written_.seconds() >= unwritten_) write();
}

void HistoryRecorder::on_epoch_end(const EpochReport& report) {
  history_.add(record_of(report));
  if (report.device_memory) peak_device_bytes_ = report.device_memory->peak_reserved_bytes;
  write();
}

void HistoryRecorder::on_stop(const TrainState&) {
  write();
}

void HistoryRecorder::on_finish(const TrainState& state) {
  auto& summary = history_.summary();
  if (std::isfinite(state.best_loss)) {
    summary["best_val_loss"] = state.best_loss;
  } else {
    summary["best_val_accuracy"] = nullptr;
    if (state.best_accuracy >= 0) summary["best_val_accuracy"] = state.best_accuracy;
  }
  summary["best_epoch"] = state.best_epoch;
  if (const auto best = best_top_accuracy()) summary["best_val_top_accuracy"] = *best;
  summary["mean_epoch_seconds"] = mean_epoch_seconds();
  summary["steps"] = state.step;
  summary["peak_memory_bytes"] = peak_resident_bytes();
  if (peak_device_bytes_ > 0) summary["peak_device_bytes"] = peak_device_bytes_;
  write();
}

std::optional<double> HistoryRecorder::best_top_accuracy() const {
  std::optional<double> best;
  for (const EpochRecord& record : history_.epochs()) {
    if (std::isfinite(record.val_top_accuracy))
      best = std::max(best.value_or(0), record.val_top_accuracy);
  }
  return best;
}

double HistoryRecorder::mean_epoch_seconds() const {
  double seconds = 0;
  int epochs = 0;
  for (const EpochRecord& record : history_.epochs()) {
    if (record.epoch == 0) continue;
    seconds += record.seconds;
    ++epochs;
  }
  return epochs == 0 ? 0 : seconds / epochs;
}

namespace {

constexpr std::string_view step_tags = "step/";  // all others are of epochs

struct EpochScalar {
  std::string_view tag;
  double EpochRecord::*member;
};
constexpr EpochScalar epoch_scalars[] = {
    {"loss/train", &EpochRecord::loss},
    {"loss/validation", &EpochRecord::val_loss},
    {"accuracy/train", &EpochRecord::accuracy},
    {"accuracy/validation", &EpochRecord::val_accuracy},
    {"top_accuracy/train", &EpochRecord::top_accuracy},
    {"top_accuracy/validation", &EpochRecord::val_top_accuracy},
    {"learning_rate", &EpochRecord::lr},
    {"samples_per_second", &EpochRecord::samples_per_second},
    {"data_wait_seconds", &EpochRecord::data_wait_seconds},
    {"exposed_communication_seconds", &EpochRecord::exposed_communication_seconds}};

}  // namespace

TensorBoardRecorder::TensorBoardRecorder(const std::filesystem::path& folder,
                                         std::int64_t log_every, double unwritten)
    : writer_(folder), log_every_(log_every), unwritten_(unwritten) {}

void TensorBoardRecorder::on_start(const TrainState& state,
                                   const std::optional<MetricSums>& untrained) {
  if (untrained) {
    writer_.add_scalar("loss/validation", untrained->mean_loss(), state.step);
    if (untrained->has_accuracy())
      writer_.add_scalar("accuracy/validation", untrained->accuracy(), state.step);
  } else {
    // An epoch that ended with this step behind the checkpoint's back will end again.
    const bool is_amid_epoch = state.position > 0;
    drop_events_after(writer_.path().parent_path(), state.step, [=](std::string_view tag) {
      return is_amid_epoch && !tag.starts_with(step_tags);
    });
    writer_.forget_from(state.step + 1);
  }
  writer_.flush();
}

void TensorBoardRecorder::on_step(const StepReport& report) {
  const auto step = report.state.step;
  if (is_due(step, log_every_)) {
    writer_.add_scalar("step/loss", report.sums.mean_loss(), step);
    if (report.sums.has_accuracy())
      writer_.add_scalar("step/accuracy", report.sums.accuracy(), step);
    writer_.add_scalar("step/learning_rate", report.learning_rate, step);
    writer_.add_scalar("step/samples_per_second", report.sums.samples / report.seconds, step);
  }
  if (since_flushed_.seconds() < unwritten_) return;
  writer_.flush();
  since_flushed_.restart();
}

void TensorBoardRecorder::on_epoch_end(const EpochReport& report) {
  const auto step = report.state.step;
  const auto record = record_of(report);
  for (const auto& [tag, member] : epoch_scalars) {
    const double value = record.*member;
    if (std::isfinite(value) || tag.starts_with("loss/")) writer_.add_scalar(tag, value, step);
  }
  if (report.loss_scale) writer_.add_scalar("loss_scale", *report.loss_scale, step);
  writer_.flush();
}

void TensorBoardRecorder::on_stop(const TrainState&) {
  writer_.flush();
}

}  // namespace kolo
