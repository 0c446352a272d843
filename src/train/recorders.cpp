#include "kolo/train/recorders.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/machine.h"
#include "kolo/train/observe/format.h"

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
                     .time = wall_time(),
                     .elapsed = report.state.seconds};
  if (report.top > 0) {
    record.top_accuracy = training.top_accuracy();
    record.val_top_accuracy = validation.top_accuracy();
  }
  return record;
}

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

std::int64_t thin_record_interval(std::int64_t epochs, std::int64_t steps_of_epoch) {
  constexpr double most_records = 500,
                   longest = 1LL << 62;  // steps may be more than an integer has
  const double steps = static_cast<double>(epochs) * static_cast<double>(steps_of_epoch);
  return static_cast<std::int64_t>(std::clamp(std::ceil(steps / most_records), 1., longest));
}

RunRecorder::RunRecorder(History history, const std::filesystem::path& folder,
                         std::int64_t log_every, double unwritten)
    : history_(std::move(history)),
      file_(folder / "history.json"),
      events_(folder),
      log_every_(log_every),
      unwritten_(unwritten) {}

void RunRecorder::flush() {
  if (!is_written_) write();
  events_.sync();
}

void RunRecorder::add(const CheckpointRecord& record) {
  history_.add(record);
  is_written_ = false;
}

void RunRecorder::write() {
  history_.write(file_);
  events_.flush();
  is_written_ = true;
  since_written_.restart();
}

void RunRecorder::on_start(const TrainState& state, const std::optional<MetricSums>& untrained) {
  if (untrained) {
    history_.add(EpochRecord{.step = state.step,
                             .val_loss = untrained->mean_loss(),
                             .val_accuracy = untrained->accuracy(),
                             .time = wall_time(),
                             .elapsed = state.seconds});
    events_.add_scalar("loss/validation", untrained->mean_loss(), state.step);
    if (untrained->has_accuracy())
      events_.add_scalar("accuracy/validation", untrained->accuracy(), state.step);
  } else {
    // An epoch that ended with this step after the checkpoint was made will end again.
    const bool is_amid_epoch = state.position > 0;
    drop_events_after(file_.parent_path(), state.step, [=](std::string_view tag) {
      return is_amid_epoch && !tag.starts_with(step_tags);
    });
    events_.forget_from(state.step + 1);
  }
  write();
}

void RunRecorder::on_epoch_begin(const TrainState& state, std::int64_t steps, std::int64_t done) {
  history_.begin({state.epoch + 1, state.step + steps - done});
}

void RunRecorder::on_step(const StepReport& report) {
  if (is_due(report.state.step, log_every_)) {
    const StepRecord record{report.state.step,
                            report.sums.mean_loss(),
                            report.sums.accuracy(),
                            report.learning_rate,
                            report.sums.samples / report.seconds,
                            wall_time(),
                            report.state.seconds};
    history_.add(record);
    events_.add_scalar("step/loss", record.loss, record.step);
    if (report.sums.has_accuracy())
      events_.add_scalar("step/accuracy", record.accuracy, record.step);
    events_.add_scalar("step/learning_rate", record.lr, record.step);
    events_.add_scalar("step/samples_per_second", record.samples_per_second, record.step);
    is_written_ = false;
  }
  if (!is_written_ && since_written_.seconds() >= unwritten_) write();
}

void RunRecorder::on_epoch_end(const EpochReport& report) {
  const auto record = record_of(report);
  history_.add(record);
  for (const auto& [tag, member] : epoch_scalars) {
    const double value = record.*member;
    if (std::isfinite(value) || tag.starts_with("loss/"))
      events_.add_scalar(tag, value, record.step);
  }
  if (report.loss_scale) events_.add_scalar("loss_scale", *report.loss_scale, record.step);
  if (report.device_memory) peak_device_bytes_ = report.device_memory->peak_reserved_bytes;
  write();
}

void RunRecorder::on_stop(const TrainState&) {
  write();
}

void RunRecorder::on_finish(const TrainState& state) {
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

std::optional<double> RunRecorder::best_top_accuracy() const {
  std::optional<double> best;
  for (const EpochRecord& record : history_.epochs()) {
    if (std::isfinite(record.val_top_accuracy))
      best = std::max(best.value_or(0), record.val_top_accuracy);
  }
  return best;
}

double RunRecorder::mean_epoch_seconds() const {
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

// "loss 0.3121, accuracy 89.10 %", or the loss alone: two blanks, where a terminal may break the
// line, stand only before other figures.
std::string metrics_of(const MetricSums& sums) {
  const std::string loss = fmt::format("loss {}", format_loss(sums.mean_loss()));
  return sums.has_accuracy() ? fmt::format("{}, accuracy {:.2f} %", loss, 100 * sums.accuracy())
                             : loss;
}

std::string metrics_line(const EpochReport& report) {
  auto line =
      fmt::format("{}  validation {}", metrics_of(report.training), metrics_of(report.validation));
  if (report.top > 0)
    line += fmt::format(", top {} {:.2f} %", report.top, 100 * report.validation.top_accuracy());
  return line + (report.is_best ? " (best)" : "");
}

}  // namespace

ProgressReporter::ProgressReporter(ProgressBar& bar, RunLog& log, std::int64_t epochs,
                                   std::string unit)
    : bar_(bar), log_(log), epochs_(epochs), unit_(std::move(unit)) {}

void ProgressReporter::on_start(const TrainState& state,
                                const std::optional<MetricSums>& untrained) {
  bar_.clear();
  if (untrained) {
    log_.info("before training: validation {}", metrics_of(*untrained));
  } else {
    log_.info("going on at step {} (epoch {} of {})", state.step,
              std::min(state.epoch + 1, epochs_), epochs_);
  }
}

void ProgressReporter::on_epoch_begin(const TrainState& state, std::int64_t steps,
                                      std::int64_t done) {
  steps_done_ = done;
  samples_before_ = state.sums.samples;
  since_begin_.restart();
  bar_.start(fmt::format("epoch {}/{}", state.epoch + 1, epochs_), steps, done, unit_);
}

void ProgressReporter::on_step(const StepReport& report) {
  ++steps_done_;
  const auto& sums = report.state.sums;
  bar_.update(steps_done_,
              {(sums.samples - samples_before_) / since_begin_.seconds(), sums.mean_loss()});
}

void ProgressReporter::on_validation(std::int64_t done, std::int64_t batches) {
  if (done == 0) bar_.start("validation", batches, 0, unit_);
  bar_.update(done, {});
}

void ProgressReporter::on_epoch_end(const EpochReport& report) {
  bar_.clear();
  log_.info("epoch {}/{}  {}  {}  {} {}/s", report.state.epoch, epochs_, metrics_line(report),
            format_duration(report.seconds), format_rate(report.samples_per_second()), unit_);
  if (report.loss_scale || report.skipped_steps > 0)
    log_.info("  {} step{} of this epoch left out ({} so far){}", report.skipped_steps,
              report.skipped_steps == 1 ? "" : "s", report.state.skipped_steps,
              report.loss_scale ? fmt::format(", loss scale {}", *report.loss_scale) : "");
  log_.debug("epoch {}: {} waiting for data, {} waiting for gradients of other ranks",
             report.state.epoch, format_duration(report.data_wait_seconds),
             format_duration(report.exposed_communication_seconds));
  if (const auto& use = report.device_memory) {
    log_.debug("epoch {}: at most {} of the device's {} taken, {} of it by tensors; {} free",
               report.state.epoch,
               format_bytes(static_cast<std::uint64_t>(use->peak_reserved_bytes)),
               format_bytes(use->device.total_bytes),
               format_bytes(static_cast<std::uint64_t>(use->peak_allocated_bytes)),
               format_bytes(use->device.free_bytes));
  }
}

void ProgressReporter::on_stop(const TrainState&) {
  bar_.clear();
}

}  // namespace kolo
