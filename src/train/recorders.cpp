#include "kolo/train/recorders.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/machine.h"
#include "kolo/observe/format.h"

namespace kolo {

namespace {

double samples_per_second(const EpochReport& report) {
  return report.training.samples / report.seconds;
}

// "loss 0.3121  accuracy 89.10 %", or the loss alone.
std::string metrics_of(const MetricSums& sums) {
  const std::string loss = fmt::format("loss {}", format_loss(sums.mean_loss()));
  return sums.has_accuracy() ? fmt::format("{}  accuracy {:.2f} %", loss, 100 * sums.accuracy())
                             : loss;
}

std::string metrics_line(const EpochReport& report) {
  std::string line = metrics_of(report.training);
  if (!report.validation) return line;
  line += fmt::format("  validation {}{}", metrics_of(*report.validation),
                      report.is_best ? " (best)" : "");
  if (report.top > 0)
    line += fmt::format("  top {} {:.2f} %", report.top, 100 * report.validation->top_accuracy());
  return line;
}

// An epoch's, as it is recorded. A device that does not tell what it takes has been used for as
// long as was trained.
DeviceUsage usage_of(const EpochRecord& record) {
  const double seconds = record.device_joules / record.device_watts;
  return {std::isfinite(seconds) ? seconds : record.seconds, record.device_joules,
          record.device_utilization, record.device_megahertz, record.device_celsius};
}

bool tells_something(const DeviceUsage& usage) {
  return std::isfinite(usage.joules) || std::isfinite(usage.utilization) ||
         std::isfinite(usage.megahertz) || std::isfinite(usage.celsius);
}

constexpr std::string_view step_tags = "step/";  // all others are of epochs

bool is_due(std::int64_t step, std::int64_t every) {
  return every > 0 && step % every == 0;
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
  if (untrained) {
    EpochRecord record;
    record.step = state.step;
    record.val_loss = untrained->mean_loss();
    record.val_accuracy = untrained->accuracy();
    record.time = wall_time();
    history_.add(record);
  }
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
  EpochRecord record;
  record.epoch = report.state.epoch;
  record.step = report.state.step;
  record.loss = report.training.mean_loss();
  record.accuracy = report.training.accuracy();
  if (report.validation) {
    record.val_loss = report.validation->mean_loss();
    record.val_accuracy = report.validation->accuracy();
  }
  if (report.top > 0) {
    record.top_accuracy = report.training.top_accuracy();
    if (report.validation) record.val_top_accuracy = report.validation->top_accuracy();
  }
  record.lr = report.learning_rate;
  record.seconds = report.seconds;
  record.samples_per_second = samples_per_second(report);
  record.data_wait_seconds = report.data_wait_seconds;
  record.exposed_communication_seconds = report.exposed_communication_seconds;
  record.time = wall_time();
  if (const auto& usage = report.device_usage) {
    record.device_joules = usage->joules;
    record.device_watts = usage->watts();
    record.device_utilization = usage->utilization;
    record.device_megahertz = usage->megahertz;
    record.device_celsius = usage->celsius;
  }
  record.gradient_noise_scale = report.gradient_noise_scale.value_or(not_measured);
  if (report.training.replaced > 0) record.bad_samples = report.training.replaced;
  if (report.validation && report.validation->replaced > 0)
    record.val_bad_samples = report.validation->replaced;
  history_.add(record);
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
  if (const auto usage = device_usage()) {
    const auto note = [&](const char* name, double value) {
      if (std::isfinite(value)) summary[name] = value;
    };
    note("device_joules", usage->joules);
    note("device_watts", usage->watts());
    note("device_utilization", usage->utilization);
    note("device_megahertz", usage->megahertz);
    note("device_celsius", usage->celsius);
  }
  write();
}

std::optional<DeviceUsage> HistoryRecorder::device_usage() const {
  std::vector<DeviceUsage> epochs;
  for (const auto& record : history_.epochs()) {
    const auto usage = usage_of(record);
    if (tells_something(usage)) epochs.push_back(usage);
  }
  return epochs.empty() ? std::nullopt : std::optional(one_after_another(epochs));
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
  writer_.add_scalar("loss/train", report.training.mean_loss(), step);
  if (report.validation)
    writer_.add_scalar("loss/validation", report.validation->mean_loss(), step);
  if (report.training.has_accuracy()) {
    writer_.add_scalar("accuracy/train", report.training.accuracy(), step);
    if (report.validation)
      writer_.add_scalar("accuracy/validation", report.validation->accuracy(), step);
  }
  if (report.top > 0) {
    writer_.add_scalar("top_accuracy/train", report.training.top_accuracy(), step);
    if (report.validation)
      writer_.add_scalar("top_accuracy/validation", report.validation->top_accuracy(), step);
  }
  if (report.loss_scale) writer_.add_scalar("loss_scale", *report.loss_scale, step);
  if (report.gradient_noise_scale && std::isfinite(*report.gradient_noise_scale))
    writer_.add_scalar("gradient_noise_scale", *report.gradient_noise_scale, step);
  writer_.add_scalar("learning_rate", report.learning_rate, step);
  writer_.add_scalar("samples_per_second", samples_per_second(report), step);
  writer_.add_scalar("data_wait_seconds", report.data_wait_seconds, step);
  writer_.add_scalar("exposed_communication_seconds", report.exposed_communication_seconds, step);
  if (const auto& usage = report.device_usage) {
    const auto add = [&](const char* tag, double value) {
      if (std::isfinite(value)) writer_.add_scalar(tag, value, step);
    };
    add("device/joules", usage->joules);
    add("device/watts", usage->watts());
    add("device/utilization", usage->utilization);
    add("device/megahertz", usage->megahertz);
    add("device/celsius", usage->celsius);
  }
  writer_.flush();
}

void TensorBoardRecorder::on_stop(const TrainState&) {
  writer_.flush();
}

ProgressReporter::ProgressReporter(ProgressBar& bar, RunLog& log, std::int64_t epochs,
                                   std::string unit)
    : bar_(bar), log_(log), epochs_(epochs), unit_(std::move(unit)) {}

void ProgressReporter::on_start(const TrainState& state,
                                const std::optional<MetricSums>& untrained) {
  bar_.clear();
  if (untrained) {
    log_.info("before training: validation loss {}{}", format_loss(untrained->mean_loss()),
              untrained->has_accuracy()
                  ? fmt::format(", accuracy {:.2f} %", 100 * untrained->accuracy())
                  : "");
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
            format_duration(report.seconds), format_rate(samples_per_second(report)), unit_);
  if (report.loss_scale || report.skipped_steps > 0) {
    log_.info("  {} step{} of this epoch left out ({} so far){}", report.skipped_steps,
              report.skipped_steps == 1 ? "" : "s", report.state.skipped_steps,
              report.loss_scale ? fmt::format(", loss scale {}", *report.loss_scale) : "");
  }
  if (const auto& scale = report.gradient_noise_scale) {
    log_.info("  gradient noise scale: {}",
              std::isfinite(*scale) ? fmt::format("{} samples", format_count(std::llround(*scale)))
                                    : "not yet known, the gradient is lost in its noise");
  }
  if (!report.bad_samples.empty()) {
    log_.warn(
        "epoch {}: {} samples of the training and {} of the validation can't be read; others "
        "took their places. The first: {}",
        report.state.epoch, report.training.replaced,
        report.validation ? report.validation->replaced : 0.,
        fmt::format("{}", fmt::join(report.bad_samples, "; ")));
  }
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
  if (report.device_usage)
    log_.debug("epoch {}: devices: {}", report.state.epoch, describe(*report.device_usage));
}

void ProgressReporter::on_stop(const TrainState&) {
  bar_.clear();
}

CheckpointObserver::CheckpointObserver(CheckpointStore& store, CheckpointSchedule schedule,
                                       std::function<Snapshot()> snapshot,
                                       std::function<void(const SavedCheckpoint&)> on_saved,
                                       ShardWriter shard)
    : writer_(std::in_place, store, std::move(shard)),
      schedule_(schedule),
      snapshot_(std::move(snapshot)),
      on_saved_(std::move(on_saved)) {}

CheckpointObserver::CheckpointObserver(CheckpointSchedule schedule,
                                       std::function<Snapshot()> snapshot)
    : schedule_(schedule), snapshot_(std::move(snapshot)) {}

void CheckpointObserver::tell(const std::optional<WrittenCheckpoint>& written) {
  if (!written || writer_->shard().index > 0) return;
  on_its_way_.path = written->path;
  on_its_way_.seconds = written->seconds;
  on_saved_(on_its_way_);
}

void CheckpointObserver::save(std::int64_t step, bool is_best) {
  const Stopwatch stall;
  if (writer_) tell(writer_->wait());
  const double waited = stall.seconds();
  auto snapshot = snapshot_();
  last_saved_ = step;
  if (!writer_) return;
  on_its_way_ = {.path = {}, .step = step, .waited_seconds = waited};
  writer_->save(step, std::move(snapshot.content), is_best);
  const auto written = snapshot.is_copy ? std::nullopt : writer_->wait();
  on_its_way_.stall_seconds = stall.seconds();
  tell(written);
}

void CheckpointObserver::save_last(const TrainState& state) {
  if (last_saved_ != state.step) save(state.step, false);
  if (writer_) tell(writer_->wait());
}

void CheckpointObserver::on_start(const TrainState& state,
                                  const std::optional<MetricSums>& untrained) {
  // A resumed run has just been read from the checkpoint of this step, or else wants one.
  const bool is_resumed = !untrained;
  if (is_resumed ? schedule_.at_resume : schedule_.at_start)
    save(state.step, false);
  else if (is_resumed)
    last_saved_ = state.step;
}

void CheckpointObserver::on_step(const StepReport& report) {
  if (writer_) tell(writer_->written());
  if (schedule_.every_steps > 0 && report.state.step % schedule_.every_steps == 0)
    save(report.state.step, false);
}

void CheckpointObserver::on_validation(std::int64_t /*done*/, std::int64_t /*batches*/) {
  if (writer_) tell(writer_->written());
}

void CheckpointObserver::on_epoch_end(const EpochReport& report) {
  // The best is always kept, whatever the schedule: it can't be had again later. A checkpoint of
  // this step may be there already, of the moment before validation; this one replaces it.
  const bool is_due =
      schedule_.every_epochs > 0 && report.state.epoch % schedule_.every_epochs == 0;
  if (is_due || report.is_best) save(report.state.step, report.is_best);
}

void CheckpointObserver::on_stop(const TrainState& state) {
  save_last(state);
}

void CheckpointObserver::on_finish(const TrainState& state) {
  save_last(state);
}

}  // namespace kolo
