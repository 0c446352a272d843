#include "kolo/train/recorders.h"

#include <cmath>

namespace kolo {

namespace {

constexpr std::string_view step_tags = "step/";  // all others are of epochs

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
  writer_.add_scalar("samples_per_second", report.samples_per_second(), step);
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

}  // namespace kolo
