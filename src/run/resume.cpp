#include "run/resume.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json_value.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/checkpoint/checkpoint_store.h"
#include "kolo/config/factories.h"
#include "kolo/launch/launch_environment.h"
#include "kolo/observe/history.h"
#include "run/runs_beside.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

// Also as it stands in a folder's name, with leading zeros.
std::optional<std::int64_t> step_of(std::string_view text) {
  while (text.size() > 1 && text.starts_with('0')) text.remove_prefix(1);
  const auto step = parse_number<std::int64_t>(text);
  return step && *step >= 0 ? step : std::nullopt;
}

// "; it holds those of steps 13, 26 (the best) and 39"
std::string what_there_is(const CheckpointStore& store) {
  std::vector<std::string> names;
  const auto best = store.best();
  for (const auto& entry : store.list()) {
    const bool is_best = best && best->step == entry.step;
    names.push_back(fmt::format("{}{}", entry.step, is_best ? " (the best)" : ""));
  }
  std::ranges::reverse(names);
  if (names.empty()) return "it holds none that can be used";
  return fmt::format("it holds those of the steps {}", fmt::join(names, ", "));
}

// One that is damaged may be what is looked for, if it is newer than what was found.
fs::path found(const CheckpointStore& store, const std::optional<CheckpointStore::Entry>& entry,
               const std::string& choice) {
  for (const auto& damaged : store.damaged()) {
    if (entry && damaged.step <= entry->step) continue;
    throw InputError(fmt::format(
        "checkpoint: which one is the {} can't be told: {} is damaged: {}; name another one: {}",
        choice, damaged.path.string(), damaged.reason, what_there_is(store)));
  }
  return entry ? entry->path : fs::path();
}

[[noreturn]] void refuse_empty(const RunFolder& folder) {
  const auto beside = describe_runs_beside(folder, job_number());
  throw InputError(
      fmt::format("resume: {} holds no checkpoint that can be used; run without --resume to "
                  "start from the beginning{}",
                  folder.checkpoints().string(), beside.empty() ? "" : "; " + beside));
}

CheckpointStore::Loaded load_newest(const RunFolder& folder, const CheckpointStore& store,
                                    const std::function<void(const std::string&)>& warn,
                                    CheckpointReading reading) {
  auto loaded = store.load_newest(warn, reading);
  if (loaded) return std::move(*loaded);
  refuse_empty(folder);
}

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 2> not_compared{"description", "output_dir"};
constexpr std::array<std::string_view, 7> order_keys{
    "seed", "data.name", "data.n_train", "data.shuffle", "data.mode", "data.crop", "data.box_size"};
// These change what is left of an epoch only.
constexpr std::array<std::string_view, 3> batch_keys{
    "training.batch_size", "training.global_batch_size", "training.drop_last"};

template <std::size_t count>
bool is_one_of(const std::array<std::string_view, count>& keys, const std::string& key) {
  return std::ranges::find(keys, key) != keys.end();
}

std::string describe(const SettingChange& change) {
  return fmt::format("{} is {} instead of {}", change.key, change.now, change.before);
}

// None where a file is missing, or one of another version of kolo.
std::optional<RunConfig> earlier_config(const ResumePoint& point, const ModelCatalogue& models) {
  const RunFolder folder{point.run};
  if (!fs::exists(folder.config())) return std::nullopt;
  try {
    ConfigSource source{folder.config(), std::nullopt, {}};
    source.is_record = true;
    return load_run_config(source, models);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

struct StepSize {
  std::int64_t samples = 0;  // of all ranks
  double rate = 0;           // scaled
};

StepSize step_size_of(const RunConfig& config, int ranks, std::int64_t samples) {
  const auto replicas = replicas_of(config, ranks);
  const auto whole = batch_size_of(config.training, replicas) * replicas;
  const auto steps = std::max<std::int64_t>(1, samples / whole);
  return {whole, make_learning_rate(config, replicas, steps).scaled_rate()};
}

std::string describe_steps(int ranks_before, const StepSize& before, int ranks_now,
                           const StepSize& now, bool ends_with_steps) {
  std::vector<std::string> parts;
  if (ranks_before != ranks_now)
    parts.push_back(
        fmt::format("{} rank{} instead of {}", ranks_now, ranks_now == 1 ? "" : "s", ranks_before));
  if (before.samples != now.samples)
    parts.push_back(fmt::format("{} samples per step instead of {}", now.samples, before.samples));
  if (before.rate != now.rate)
    parts.push_back(fmt::format("learning rate {:.4g} instead of {:.4g}", now.rate, before.rate));
  if (parts.empty()) return {};
  return fmt::format("{}; {}", fmt::join(parts, ", "),
                     ends_with_steps
                         ? "the epoch goes on where it was, the schedule after as many steps as "
                           "were done, because training.max_steps ends the run"
                         : "schedule and epoch go on where they were");
}

// A run that was stopped is not finished by asking for less than it has done.
void require_not_beyond(const ResumePoint& point, const TrainingConfig& training) {
  const auto refuse = [&](const std::string& done, const std::string& asked,
                          const std::string& more) {
    throw InputError(
        fmt::format("resume: {} has done {}, which is more than {}; give {} or more, or go on from "
                    "an earlier checkpoint (--resume STEP)",
                    point.checkpoint.string(), done, asked, more));
  };
  const bool is_amid_epoch = point.position > 0;
  if (point.base_epochs) {
    if (*point.base_epochs > static_cast<double>(training.n_epochs)) {
      const auto enough = static_cast<std::int64_t>(std::ceil(*point.base_epochs));
      refuse(fmt::format("what is worth {:.1f} epochs", *point.base_epochs),
             fmt::format("training.n_epochs: {}", training.n_epochs),
             fmt::format("training.n_epochs={}", enough));
    }
  } else if (point.epoch > training.n_epochs ||
             (is_amid_epoch && point.epoch == training.n_epochs)) {
    refuse(fmt::format("{} epoch{}{}", point.epoch, point.epoch == 1 ? "" : "s",
                       is_amid_epoch ? " and a part of the next" : ""),
           fmt::format("training.n_epochs: {}", training.n_epochs),
           fmt::format("training.n_epochs={}", point.epoch + (is_amid_epoch ? 1 : 0)));
  }
  if (training.max_steps && point.step > *training.max_steps) {
    refuse(fmt::format("{} steps", point.step),
           fmt::format("training.max_steps: {}", *training.max_steps),
           fmt::format("training.max_steps={}", point.step));
  }
}

// How far a finished run came, of which this is one checkpoint, perhaps not the last.
struct Extent {
  std::int64_t epoch = 0, step = 0;
};
Extent extent_of(const History& history, const ResumePoint& point) {
  Extent extent{point.epoch, point.step};
  for (const auto& record : history.epochs()) {
    extent.epoch = std::max(extent.epoch, record.epoch);
    extent.step = std::max(extent.step, record.step);
  }
  return extent;
}

// "; best validation accuracy 91.23 %"
std::string best_of(const nlohmann::ordered_json& summary) {
  const auto number = [&](const char* key) {
    const auto found = summary.find(key);
    return found != summary.end() && found->is_number() ? std::optional(found->get<double>())
                                                        : std::nullopt;
  };
  if (const auto accuracy = number("best_val_accuracy"))
    return fmt::format("; best validation accuracy {:.2f} %", 100 * *accuracy);
  if (const auto loss = number("best_val_loss"))
    return fmt::format("; best validation loss {:.4g}", *loss);
  return {};
}

}  // namespace

fs::path find_checkpoint(const RunFolder& folder, const std::string& choice) {
  const auto store = folder.checkpoint_store();
  if (choice == newest_checkpoint) {
    const auto all = store.list();
    const auto path = found(store, all.empty() ? std::nullopt : std::optional(all.front()), choice);
    if (!path.empty()) return path;
    throw InputError(fmt::format("checkpoint: {} holds none", folder.checkpoints().string()));
  }
  if (choice == "best") {
    if (auto path = found(store, store.best(), choice); !path.empty()) return path;
    throw InputError(
        fmt::format("checkpoint: no checkpoint in {} was the best when it was saved; {}",
                    folder.checkpoints().string(), what_there_is(store)));
  }
  if (const auto step = step_of(choice)) {
    for (const auto& entry : store.list())
      if (entry.step == *step) return entry.path;
    // Whoever reads it says what is wrong with it.
    const auto damaged = folder.checkpoints() / fmt::format("step-{:08}", *step);
    if (fs::exists(damaged)) return damaged;
    throw InputError(fmt::format("checkpoint: {} holds no checkpoint of step {}; {}",
                                 folder.checkpoints().string(), *step, what_there_is(store)));
  }
  const fs::path path = fs::absolute(choice).lexically_normal();
  if (fs::exists(path / "manifest.json")) return path.has_filename() ? path : path.parent_path();
  throw InputError(fmt::format(
      "checkpoint: {} is no checkpoint, which is a folder step-NNNNNNNN with manifest.json "
      "in it; give newest, best, a step, or a checkpoint's folder",
      choice));
}

CheckpointStore::Loaded load_named(const fs::path& path, CheckpointReading reading) {
  try {
    return CheckpointStore::load(path, reading);
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    throw InputError(fmt::format("checkpoint: {} can't be used: {}", path.string(), error.what()));
  }
}

CheckpointStore::Loaded load_chosen(const RunFolder& folder, const std::string& choice,
                                    const std::function<void(const std::string&)>& warn,
                                    CheckpointReading reading) {
  const auto store = folder.checkpoint_store();
  if (choice == newest_checkpoint) return load_newest(folder, store, warn, reading);
  const bool is_of_folder = choice == "best" || step_of(choice);
  if (is_of_folder && !folder.holds_step_folder()) refuse_empty(folder);
  return load_named(find_checkpoint(folder, choice), reading);
}

bool ResumePoint::is_in(const RunFolder& folder) const {
  std::error_code error;
  return fs::equivalent(checkpoint.parent_path(), folder.checkpoints(), error);
}

ResumePoint resume_point(const CheckpointStore::Loaded& loaded) {
  const auto& state = loaded.content.state;
  try {
    ResumePoint point{loaded.path, loaded.step};
    point.epoch = state.at("epoch").get<std::int64_t>();
    point.position = state.at("position").get<std::int64_t>();
    point.best_epoch = state.at("best_epoch").get<std::int64_t>();
    if (state.contains("base_epochs")) point.base_epochs = state.at("base_epochs").get<double>();
    point.ranks = state.value("ranks", 1);
    point.made_with = state.value("made_with", nlohmann::json());
    if (state.contains("training_samples"))
      point.samples = state.at("training_samples").get<std::int64_t>();
    point.run = loaded.path.parent_path().parent_path();
    return point;
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("resume: the state.json of {} is not one of kolo's: {}",
                            loaded.path.string(), in_plain_words(error)));
  }
}

ResumeChanges changes_since(const ResumePoint& point, const RunConfig& config,
                            const ModelCatalogue& models, int ranks, std::int64_t samples,
                            std::int64_t steps_of_epoch) {
  ResumeChanges changes;
  if (point.samples && *point.samples != samples)
    changes.of_data_order.push_back(
        fmt::format("the data has {} training samples instead of {}", samples, *point.samples));
  const auto earlier = earlier_config(point, models);
  changes.are_known = earlier.has_value();
  if (!earlier) return changes;
  StepSize before, now;
  try {
    before = step_size_of(*earlier, point.ranks, point.samples.value_or(samples));
    now = step_size_of(config, ranks, samples);
  } catch (const InputError&) {  // a batch that the ranks before can't share was never trained with
    before = now;
  }
  changes.of_steps = describe_steps(point.ranks, before, ranks, now,
                                    make_trainer_options(config).ends_with_steps(steps_of_epoch));
  const bool cuts_epoch_anew = point.position > 0 && before.samples != now.samples;
  for (auto& change : changes_between(*earlier, config)) {
    if (is_one_of(not_compared, change.key)) continue;
    if (is_one_of(order_keys, change.key) || (cuts_epoch_anew && is_one_of(batch_keys, change.key)))
      changes.of_data_order.push_back(describe(change));
    changes.settings.push_back(std::move(change));
  }
  return changes;
}

std::string describe(const std::vector<SettingChange>& changes) {
  std::vector<std::string> texts;
  for (const auto& change : changes) texts.push_back(describe(change));
  return fmt::format("{}", fmt::join(texts, ", "));
}

void require_same_data_order(const ResumeChanges& changes) {
  if (changes.of_data_order.empty()) return;
  throw InputError(
      fmt::format("resume: samples would come in another order than in the run so far: {}. Use the "
                  "run's own settings, or add --allow-data-change to go on all the same",
                  fmt::join(changes.of_data_order, ", ")));
}

std::string describe_if_finished(const ResumePoint& point, const RunConfig& config,
                                 const RunFolder& folder) {
  const auto& training = config.training;
  const bool has_epochs = point.base_epochs.value_or(static_cast<double>(point.epoch)) <
                          static_cast<double>(training.n_epochs);
  const bool is_out_of_patience =
      point.position == 0 && training.early_stopping_patience > 0 &&
      point.epoch - point.best_epoch >= training.early_stopping_patience;
  const bool is_out_of_steps = training.max_steps && point.step >= *training.max_steps;
  const bool has_work = has_epochs && !is_out_of_patience && !is_out_of_steps;
  if (has_work || !point.is_in(folder)) return {};
  const auto history =
      fs::exists(folder.history()) ? History::read(folder.history()) : History(point.ranks);
  if (history.summary().empty()) {
    require_not_beyond(point, training);
    return {};
  }
  const auto done = extent_of(history, point);
  return fmt::format(
      "{} holds a finished run: {} epoch{}, {} steps{}{}. There is nothing to go on with. To train "
      "longer, {}",
      folder.path.string(), done.epoch, done.epoch == 1 ? "" : "s", done.step,
      is_out_of_patience && has_epochs ? ", ended by training.early_stopping_patience" : "",
      best_of(history.summary()),
      is_out_of_steps
          ? fmt::format("give more steps: --resume training.max_steps={}", 2 * done.step)
      : is_out_of_patience && has_epochs
          ? "give more patience: --resume training.early_stopping_patience=EPOCHS"
          : fmt::format("give more epochs: --resume training.n_epochs={}",
                        point.base_epochs ? 2 * training.n_epochs : 2 * done.epoch));
}

}  // namespace kolo
