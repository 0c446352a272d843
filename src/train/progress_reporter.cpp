#include "kolo/train/recorders.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/machine.h"
#include "kolo/train/observe/format.h"

namespace kolo {

namespace {

// "loss 0.3121  accuracy 89.10 %", or the loss alone.
std::string metrics_of(const MetricSums& sums) {
  const std::string loss = fmt::format("loss {}", format_loss(sums.mean_loss()));
  return sums.has_accuracy() ? fmt::format("{}  accuracy {:.2f} %", loss, 100 * sums.accuracy())
                             : loss;
}

std::string metrics_line(const EpochReport& report) {
  auto line = fmt::format("{}  validation {}{}", metrics_of(report.training),
                          metrics_of(report.validation), report.is_best ? " (best)" : "");
  if (report.top > 0)
    line += fmt::format("  top {} {:.2f} %", report.top, 100 * report.validation.top_accuracy());
  return line;
}

}  // namespace

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
            format_duration(report.seconds), format_rate(report.samples_per_second()), unit_);
  if (report.loss_scale || report.skipped_steps > 0) {
    log_.info("  {} step{} of this epoch left out ({} so far){}", report.skipped_steps,
              report.skipped_steps == 1 ? "" : "s", report.state.skipped_steps,
              report.loss_scale ? fmt::format(", loss scale {}", *report.loss_scale) : "");
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
}

void ProgressReporter::on_stop(const TrainState&) {
  bar_.clear();
}

}  // namespace kolo
