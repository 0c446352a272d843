#include "online/online_trainer.h"

#include <cmath>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo::online {

TrainingRecords::TrainingRecords(const OnlineConfig& config, int ranks)
    : folder_(config.output_dir),
      every_(config.training.log_every),
      ranks_(ranks),
      batch_size_(narrow<int>(config.training.batch_size)),
      history_(ranks) {
  if (folder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) {
    throw InputError(fmt::format("online: output_dir: the folder {} can't be made: {}",
                                 folder_.string(), error.message()));
  }
  events_ = std::make_unique<TensorBoardWriter>(folder_);
}

TrainingRecords::~TrainingRecords() {
  try {
    flush();
  } catch (const std::exception&) {
    // A disk that is full; who wants to know calls save() before.
  }
}

void TrainingRecords::add(const TrainingProgress& progress, std::int64_t time_step) {
  if (!events_ || every_ == 0) return;
  if (std::isfinite(progress.loss)) {
    loss_ += progress.loss;
    ++steps_;
  }
  if (progress.steps % every_ != 0) return;
  const double seconds = since_record_.seconds();
  since_record_.restart();
  StepRecord record;
  record.step = progress.steps;
  if (steps_ > 0) record.loss = loss_ / static_cast<double>(steps_);
  record.lr = progress.learning_rate;
  record.samples_per_second = static_cast<double>(every_) * batch_size_ * ranks_ / seconds;
  record.time = wall_time();
  loss_ = 0;
  steps_ = 0;
  history_.add(record);
  events_->add_scalar("loss/train", record.loss, progress.steps);
  events_->add_scalar("lr", record.lr, progress.steps);
  events_->add_scalar("samples_per_second", record.samples_per_second, progress.steps);
  events_->add_scalar("samples/arrived", static_cast<double>(progress.arrivals), progress.steps);
  events_->add_scalar("samples/stored", static_cast<double>(progress.stored), progress.steps);
  events_->add_scalar("time_step", static_cast<double>(time_step), progress.steps);
  // A file that is written whole each time takes longer than a step of a small network.
  constexpr double least_pause = 5;
  if (since_flush_.seconds() > least_pause) flush();
}

void TrainingRecords::add_value(std::string_view name, std::int64_t step, double value) {
  if (events_) events_->add_scalar(name, value, step);
}

// One of another training is renamed, never overwritten.
void TrainingRecords::keep_earlier_history() {
  const auto file = folder_ / "history.json";
  if (std::exchange(is_own_, true) || !std::filesystem::exists(file)) return;
  int number = 1;
  const auto kept = [&] { return folder_ / fmt::format("history.{}.json", number); };
  while (std::filesystem::exists(kept())) ++number;
  std::filesystem::rename(file, kept());
}

void TrainingRecords::flush() {
  if (!events_) return;
  keep_earlier_history();
  since_flush_.restart();
  events_->flush();
  history_.write(folder_ / "history.json");
}

void TrainingRecords::go_back_to(std::int64_t steps) {
  if (!events_) return;
  const auto file = folder_ / "history.json";
  if (std::filesystem::exists(file)) history_ = History::read(file);
  is_own_ = true;
  history_.drop_after(steps);
  events_->forget_from(steps + 1);
  loss_ = 0;
  steps_ = 0;
}

}  // namespace kolo::online
