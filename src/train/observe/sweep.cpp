#include "kolo/train/observe/sweep.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "base/json_value.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"
#include "kolo/train/observe/format.h"
#include "train/observe/json_fields.h"

namespace kolo {

namespace {

using Json = nlohmann::ordered_json;

constexpr auto trial_fields = [](auto& field, auto& trial) {
  field("number", trial.number);
  field("settings", trial.settings);
  field("folder", trial.folder);
  field("state", trial.state);
  field("failures", trial.failures);
  field("problem", trial.problem);
  field.measured("seconds", trial.seconds);
  field("epochs", trial.epochs);
  field.measured("best", trial.best);
  field("best_epoch", trial.best_epoch);
  field.measured("last", trial.last);
};

constexpr auto sweep_fields = [](auto& field, auto& sweep) {
  field("name", sweep.name);
  field("configuration", sweep.configuration);
  field("space", sweep.space);
  field("settings", sweep.settings);
  field("random", sweep.random);
  field("seed", sweep.seed);
  field("ranks", sweep.ranks);
  field("threads", sweep.threads);
  field("metric", sweep.metric);
  field.list("trials", sweep.trials, trial_fields);
  field.if_measured("target", sweep.target);
};

double EpochRecord::*member_of(std::string_view metric) {
  return metric == "val_loss" ? &EpochRecord::val_loss : &EpochRecord::val_accuracy;
}

}  // namespace

Json Sweep::to_json() const {
  Json document = json_of(*this, sweep_fields);
  if (const auto last = last_epochs(*this); last && std::isfinite(target))
    document["last_epochs"] = {{"mean", last->mean}, {"deviation", last->deviation}};
  return document;
}

Sweep Sweep::from_json(const Json& document) {
  return document_from<Sweep>("sweep", document, sweep_fields);
}

void Sweep::write(const std::filesystem::path& path) const {
  write_file_atomically(path, to_json().dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

Sweep Sweep::read(const std::filesystem::path& path) {
  return read_document<Sweep>(path, "rename or remove it to begin the sweep's list anew");
}

std::pair<std::string, std::string> key_and_value(std::string_view setting) {
  const auto equals = setting.find('=');
  if (equals == std::string_view::npos) return {std::string(setting), ""};
  return {std::string(setting.substr(0, equals)), std::string(setting.substr(equals + 1))};
}

namespace {

// "learning rate" for optimizer.lr, "optimizer" for optimizer.name.
std::string key_in_words(const std::string& key) {
  const auto dot = key.rfind('.');
  auto last = key.substr(dot + 1);  // the whole key without a dot
  if (last == "name" && dot != std::string::npos) last = key.substr(0, dot);
  std::vector<std::string> words;
  std::istringstream parts(last);
  for (std::string part; std::getline(parts, part, '_');)
    if (part != "n") words.push_back(part == "lr" ? "learning rate" : part);
  return join(words, " ");
}

}  // namespace

std::vector<std::string> names_in_words(const std::vector<std::string>& settings) {
  std::vector<std::string> names;
  for (const auto& setting : settings) names.push_back(key_in_words(key_and_value(setting).first));
  if (std::set(names.begin(), names.end()).size() == names.size()) return names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = key_and_value(settings[i]).first;
  return names;
}

std::string describe(const Trial& trial) {
  auto parts = names_in_words(trial.settings);
  for (std::size_t i = 0; i < parts.size(); ++i)
    parts[i] = fmt::format("{} {}", parts[i], key_and_value(trial.settings[i]).second);
  return join(parts);
}

bool is_seed(std::string_view setting) {
  return key_and_value(setting).first == "seed";
}

std::vector<SeedGroup> groups_by_seed(const Sweep& sweep) {
  std::vector<SeedGroup> groups;
  std::map<std::vector<std::string>, std::size_t> indices;  // by the other settings
  for (std::size_t trial = 0; trial < sweep.trials.size(); ++trial) {
    auto settings = sweep.trials[trial].settings;
    std::erase_if(settings, is_seed);
    const auto [index, is_new] = indices.try_emplace(std::move(settings), groups.size());
    if (is_new) groups.emplace_back();
    groups[index->second].trials.push_back(trial);
  }
  for (auto& group : groups) {
    std::vector<double> values;
    for (const auto trial : group.trials)
      if (const double best = sweep.trials[trial].best; std::isfinite(best)) values.push_back(best);
    if (values.empty()) continue;
    const auto result = mean_and_deviation(values);
    group.mean = result.mean;
    if (values.size() > 1) group.deviation = result.deviation;
  }
  return groups;
}

std::optional<MeanDeviation> last_epochs(const Sweep& sweep) {
  std::vector<double> values;
  for (const auto& trial : sweep.trials)
    if (trial.state == TrialState::done && std::isfinite(trial.last)) values.push_back(trial.last);
  return values.empty() ? std::nullopt : std::optional(mean_and_deviation(values));
}

bool is_better(std::string_view metric, double one, double other) {
  if (!std::isfinite(one)) return false;
  if (!std::isfinite(other)) return true;
  return metric == "val_loss" ? one < other : one > other;
}

std::vector<std::size_t> best_first(const Sweep& sweep) {
  std::vector<std::size_t> indices(sweep.trials.size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  std::ranges::stable_sort(indices, [&](std::size_t one, std::size_t other) {
    return is_better(sweep.metric, sweep.trials[one].best, sweep.trials[other].best);
  });
  return indices;
}

std::string format_metric(std::string_view metric, double value) {
  if (!std::isfinite(value)) return {};
  return metric == "val_loss" ? format_loss(value) : fmt::format("{:.2f} %", 100 * value);
}

void note_results(Trial& trial, const History& history, std::string_view metric) {
  trial.epochs = trial.best_epoch = 0;
  trial.best = trial.last = not_measured;
  for (const auto& record : history.epochs()) {
    if (record.epoch < 1) continue;
    trial.epochs = record.epoch;
    trial.last = record.*member_of(metric);
    if (!is_better(metric, trial.last, trial.best)) continue;
    trial.best = trial.last;
    trial.best_epoch = record.epoch;
  }
}

}  // namespace kolo
