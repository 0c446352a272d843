#include "run/run_records.h"

#include <algorithm>

#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/config/derived_settings.h"
#include "kolo/train/observe/format.h"

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

RunRecords::RunRecords(const RunConfig& config, const RunFolder& folder, const RunContext& context,
                       int ranks, std::int64_t steps, const std::optional<ResumePoint>& resumed)
    : log_({.console = &console_of(context.options),
            .colour = context.progress.terminal && detect_colour(1),
            .width = context.progress.terminal ? context.progress.width : 0,
            .file = folder.log(),
            .verbosity = context.options.verbosity}),
      bar_(console_of(context.options), context.progress),
      history_(earlier_history(folder, ranks, resumed), folder.history(),
               record_interval(config.training, steps)),
      tensorboard_(folder.path, record_interval(config.training, steps)),
      progress_(bar_, log_, most_epochs(config, replicas_of(config, ranks)),
                sample_name(config.data)) {
  log_.route_console_through([this](std::string_view line) { bar_.print_above(line); });
  if (resumed) folder.checkpoint_store().remove_after(resumed->step);
}

RunRecords::~RunRecords() {
  log_.route_console_through({});
}

void RunRecords::attach_to(Trainer& trainer, RunLock& lock) {
  trainer.add_observer(notes_.emplace(lock));
  trainer.add_observer(history_);
  trainer.add_observer(tensorboard_);
  trainer.add_observer(progress_);
}

void RunRecords::flush() {
  history_.flush();
  tensorboard_.flush();
}

RunCheckpoints::Hooks RunRecords::of_checkpoints(RunLock& lock, StopTime* stop_time) {
  const auto before = [this, &lock] {
    lock.require_held();
    flush();
  };
  const auto on_saved = [this, stop_time](const SavedCheckpoint& saved) {
    if (stop_time != nullptr) stop_time->note_checkpoint(saved.seconds);
    log_.debug("checkpoint {}: training stood still for {:.1f} ms{}, writing took {}",
               saved.path.string(), 1e3 * saved.stall_seconds,
               saved.waited_seconds > .001
                   ? fmt::format(", {:.1f} ms of it until the one before was written",
                                 1e3 * saved.waited_seconds)
                   : "",
               format_duration(saved.seconds));
    history_.add(CheckpointRecord{saved.step, saved.stall_seconds, saved.waited_seconds,
                                  saved.seconds, wall_time()});
  };
  return {before, on_saved, [this](const std::string& warning) { log_.warn("{}", warning); }};
}

}  // namespace kolo
