#include "cli/train/run_records.h"

#include <algorithm>
#include <iostream>

namespace kolo {

namespace {

History earlier_history(const RunFolder& folder, int ranks,
                        const std::optional<ResumePoint>& resumed) {
  if (!resumed || !std::filesystem::exists(folder.history())) return History(ranks);
  History history = History::read(folder.history());
  history.drop_after(resumed->step, resumed->epoch);
  return history;
}

// A run ends with its epochs or with its steps, whichever comes first.
std::int64_t record_interval(const TrainingConfig& config, std::int64_t steps_of_epoch) {
  const auto by_epochs = thin_record_interval(config.n_epochs, steps_of_epoch);
  const auto by_steps = config.max_steps ? thin_record_interval(1, *config.max_steps) : by_epochs;
  return config.log_every.value_or(std::min(by_epochs, by_steps));
}

}  // namespace

RunRecords::RunRecords(const RunConfig& config, const RunFolder& folder, const RunOptions& options,
                       int ranks, std::int64_t steps, const std::optional<ResumePoint>& resumed)
    : log_({.console = &std::cout,
            .colour = options.progress.terminal && detect_colour(1),
            .width = options.progress.terminal ? options.progress.width : 0,
            .file = folder.log(),
            .verbosity = options.verbosity}),
      bar_(std::cout, options.progress),
      history_(earlier_history(folder, ranks, resumed), folder.history(),
               record_interval(config.training, steps)),
      tensorboard_(folder.path, record_interval(config.training, steps)),
      progress_(bar_, log_, config.training.n_epochs, sample_name(config.data)),
      store_(folder.checkpoint_store(config.checkpoint.keep)) {
  log_.route_console_through([this](std::string_view line) { bar_.print_above(line); });
  if (resumed) store_.remove_after(resumed->step);
}

RunRecords::~RunRecords() {
  log_.route_console_through({});
}

void RunRecords::attach_to(Trainer& trainer, const CheckpointConfig& config, RunLock& lock) {
  trainer.add_observer(notes_.emplace(lock));
  trainer.add_observer(history_);
  trainer.add_observer(tensorboard_);
  trainer.add_observer(progress_);
  if (!config.enabled) return;
  checkpoints_.emplace(
      store_, make_checkpoint_schedule(config),
      [this, &trainer, &lock] {
        lock.require_held();
        history_.flush();
        tensorboard_.flush();
        return trainer.checkpoint();
      },
      [this](const std::filesystem::path& path) { log_.debug("checkpoint {}", path.string()); });
  trainer.add_observer(*checkpoints_);
}

}  // namespace kolo
