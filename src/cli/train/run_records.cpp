#include "cli/train/run_records.h"

#include <iostream>

namespace kolo {

namespace {

History earlier_history(const RunFolder& folder, int ranks,
                        std::optional<std::int64_t> resumed_step) {
  if (!resumed_step || !std::filesystem::exists(folder.history())) return History(ranks);
  History history = History::read(folder.history());
  history.drop_after(*resumed_step);
  return history;
}

std::int64_t record_interval(const TrainingConfig& config, std::int64_t steps_of_epoch) {
  return config.log_every.value_or(thin_record_interval(config.n_epochs, steps_of_epoch));
}

// What a sample is called in rates.
std::string sample_name(const DataConfig& data) {
  if (data.name == "nbody") return "crops";
  return data.target_shape.empty() ? "images" : "samples";
}

}  // namespace

RunRecords::RunRecords(const RunConfig& config, const RunFolder& folder, const RunOptions& options,
                       int ranks, std::int64_t steps, std::optional<std::int64_t> resumed_step)
    : log_({.console = &std::cout,
            .colour = options.progress.terminal && detect_colour(1),
            .file = folder.log(),
            .verbosity = options.verbosity}),
      bar_(std::cout, options.progress),
      history_(earlier_history(folder, ranks, resumed_step), folder.history(),
               record_interval(config.training, steps)),
      tensorboard_(folder.path, record_interval(config.training, steps)),
      progress_(bar_, log_, config.training.n_epochs, sample_name(config.data)),
      store_(folder.checkpoint_store(config.checkpoint.keep)) {
  log_.route_console_through([this](std::string_view line) { bar_.print_above(line); });
  if (resumed_step) store_.remove_after(*resumed_step);
}

RunRecords::~RunRecords() {
  log_.route_console_through({});
}

void RunRecords::attach_to(Trainer& trainer, const CheckpointConfig& config) {
  trainer.add_observer(history_);
  trainer.add_observer(tensorboard_);
  trainer.add_observer(progress_);
  if (!config.enabled) return;
  checkpoints_.emplace(
      store_, make_checkpoint_schedule(config), [&trainer] { return trainer.checkpoint(); },
      [this](const std::filesystem::path& path) { log_.debug("checkpoint {}", path.string()); });
  trainer.add_observer(*checkpoints_);
}

}  // namespace kolo
