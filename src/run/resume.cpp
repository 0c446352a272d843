#include "run/resume.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/base/text.h"
#include "kolo/config/derived_settings.h"
#include "kolo/kernels/onednn.h"
#include "kolo/train/observe/history.h"
#include "run/run_device.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 2> not_compared{"description", "output_dir"};
// Keys that change the order of samples; the data set has more (DatasetEntry::order_keys).
constexpr std::array<std::string_view, 4> order_keys{"seed", "data.name", "data.n_train",
                                                     "data.shuffle"};
// Keys that change only the rest of an epoch.
constexpr std::array<std::string_view, 3> batch_keys{
    "training.batch_size", "training.global_batch_size", "training.drop_last"};

std::string describe(const SettingChange& change) {
  return fmt::format("{} is {} instead of {}", change.key, change.now, change.before);
}

bool changes_order(std::string_view key, const DataConfig& data) {
  constexpr std::string_view section = "data.";
  if (std::ranges::count(order_keys, key) > 0) return true;
  return key.starts_with(section) &&
         std::ranges::count(dataset_entry(data.name).order_keys, key.substr(section.size())) > 0;
}

// Reads the run's configuration; none where it is missing or not understood by this version.
std::optional<RunConfig> earlier_config(const ResumePoint& point, const ModelCatalogue& models) {
  const RunFolder folder{point.run};
  if (!fs::exists(folder.config())) return std::nullopt;
  try {
    return load_run_config({folder.config(), std::nullopt, {}}, models);
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

// Says the same as TrainerOptions::ends_with_steps(), whose header needs LibTorch.
bool ends_with_steps(const TrainingConfig& training, std::int64_t steps_of_epoch) {
  return training.max_steps &&
         *training.max_steps < checked_multiply(training.n_epochs, steps_of_epoch);
}

std::string describe_steps(int ranks_before, const StepSize& before, int ranks_now,
                           const StepSize& now, bool has_last_step) {
  std::vector<std::string> parts;
  if (ranks_before != ranks_now)
    parts.push_back(fmt::format("{} instead of {}", counted(ranks_now, "rank"), ranks_before));
  if (before.samples != now.samples)
    parts.push_back(fmt::format("{} samples per step instead of {}", now.samples, before.samples));
  if (before.rate != now.rate)
    parts.push_back(fmt::format("learning rate {:.4g} instead of {:.4g}", now.rate, before.rate));
  if (parts.empty()) return {};
  return fmt::format("{}; {}", fmt::join(parts, ", "),
                     has_last_step
                         ? "the epoch goes on where it was, the schedule after as many steps as "
                           "were done, because training.max_steps ends the run"
                         : "schedule and epoch go on where they were");
}

// Refuses an end that a stopped run has passed already.
void require_not_beyond(const ResumePoint& point, const TrainingConfig& training) {
  const auto require = [&](std::string_view key, std::int64_t least, std::int64_t asked) {
    if (asked >= least) return;
    throw InputError(
        fmt::format("resume: {} has done more than training.{}: {}; give training.{}={} or more, "
                    "or go on from an earlier checkpoint (--resume STEP)",
                    point.checkpoint.string(), key, asked, key, least));
  };
  require("n_epochs", point.epoch + (point.position > 0 ? 1 : 0), training.n_epochs);
  if (training.max_steps) require("max_steps", point.step, *training.max_steps);
}

// Text "; best validation accuracy 91.23 %".
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

bool ResumePoint::is_in(const RunFolder& folder) const {
  std::error_code error;
  return fs::equivalent(checkpoint.parent_path(), folder.checkpoints(), error);
}

ResumeChanges changes_since(const ResumePoint& point, const RunConfig& config,
                            const ModelCatalogue& models, int ranks, std::int64_t samples,
                            std::int64_t steps_of_epoch) {
  ResumeChanges changes;
  if (point.samples != samples)
    changes.of_data_order.push_back(
        fmt::format("the data has {} training samples instead of {}", samples, point.samples));
  const auto earlier = earlier_config(point, models);
  if (!earlier) return changes;
  StepSize before, now;
  try {
    before = step_size_of(*earlier, point.ranks, point.samples);
    now = step_size_of(config, ranks, samples);
  } catch (const InputError&) {  // a batch that the ranks before can't share was never trained with
    before = now;
  }
  changes.of_steps = describe_steps(point.ranks, before, ranks, now,
                                    ends_with_steps(config.training, steps_of_epoch));
  const bool cuts_epoch_anew = point.position > 0 && before.samples != now.samples;
  for (auto& change : changes_between(*earlier, config)) {
    if (std::ranges::count(not_compared, change.key) > 0) continue;
    if (changes_order(change.key, config.data) ||
        (cuts_epoch_anew && std::ranges::count(batch_keys, change.key) > 0))
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
  const bool has_epochs = point.epoch < training.n_epochs;
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
  auto epochs = point.epoch, steps = point.step;
  for (const auto& record : history.epochs()) {  // the checkpoint may not be the last
    epochs = std::max(epochs, record.epoch);
    steps = std::max(steps, record.step);
  }
  return fmt::format(
      "{} holds a finished run: {}, {} steps{}{}. There is nothing to go on with. To train longer, "
      "{}",
      folder.path.string(), counted(epochs, "epoch"), steps,
      is_out_of_patience && has_epochs ? ", ended by training.early_stopping_patience" : "",
      best_of(history.summary()),
      is_out_of_steps ? fmt::format("give more steps: --resume training.max_steps={}", 2 * steps)
      : is_out_of_patience && has_epochs
          ? "give more patience: --resume training.early_stopping_patience=EPOCHS"
          : fmt::format("give more epochs: --resume training.n_epochs={}", 2 * epochs));
}

nlohmann::json made_with_here() {
  const auto libtorch = libtorch_facts();
  return {{"processor", processor_name()},
          {"threads per rank", std::to_string(libtorch.threads)},
          {"kolo", KOLO_VERSION},
          {"LibTorch", libtorch.version},
          {"oneDNN", onednn_description()}};
}

std::string describe_other_making(const nlohmann::json& before, const nlohmann::json& now) {
  if (!before.is_object()) return {};
  std::vector<std::string> differences;
  for (const auto& [name, value] : now.items()) {
    const auto found = before.find(name);
    if (found == before.end() || *found == value || !found->is_string()) continue;
    differences.push_back(fmt::format("{} {} instead of {}", name, value.get<std::string>(),
                                      found->get<std::string>()));
  }
  return fmt::format("{}", fmt::join(differences, ", "));
}

}  // namespace kolo
