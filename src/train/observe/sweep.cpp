#include "kolo/train/observe/sweep.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "base/json_value.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"
#include "kolo/train/observe/format.h"
#include "train/observe/json_numbers.h"

namespace kolo {

namespace {

using Json = nlohmann::ordered_json;

TrialState trial_state_named(const std::string& name) {
  // Trials that earlier versions ended before the last epoch (successive halving).
  if (name == "waiting" || name == "dropped") return TrialState::stopped;
  if (const auto state = find_named<TrialState>(name)) return *state;
  throw JsonError(
      fmt::format("the key \"state\": expected pending, running, stopped, done or failed, got {}",
                  quote(name)));
}

Json trial_json(const Trial& trial) {
  return {{"number", trial.number},
          {"settings", trial.settings},
          {"folder", trial.folder},
          {"state", name_of(trial.state)},
          {"failures", trial.failures},
          {"problem", trial.problem},
          {"seconds", number_or_null(trial.seconds)},
          {"epochs", trial.epochs},
          {"best", number_or_null(trial.best)},
          {"best_epoch", trial.best_epoch},
          {"last", number_or_null(trial.last)}};
}

std::vector<std::string> texts_of(const Json& document, const char* key) {
  std::vector<std::string> texts;
  for (const Json& text : json_list(document, key)) texts.push_back(text.get<std::string>());
  return texts;
}

Trial trial_of(const Json& json) {
  Trial trial;
  trial.number = json_value<int>(json, "number");
  trial.settings = texts_of(json, "settings");
  trial.folder = json_value<std::string>(json, "folder");
  trial.state = trial_state_named(json_value<std::string>(json, "state"));
  trial.failures = json_value<int>(json, "failures");
  trial.problem = json_value<std::string>(json, "problem");
  trial.seconds = number_or_unmeasured(json, "seconds");
  trial.epochs = json_value<std::int64_t>(json, "epochs");
  trial.best = number_or_unmeasured(json, "best");
  trial.best_epoch = json_value<std::int64_t>(json, "best_epoch");
  trial.last = number_or_unmeasured(json, "last");
  return trial;
}

double EpochRecord::*member_of(std::string_view metric) {
  return metric == "val_loss" ? &EpochRecord::val_loss : &EpochRecord::val_accuracy;
}

}  // namespace

Json Sweep::to_json() const {
  Json document{{"name", name},     {"configuration", configuration},
                {"space", space},   {"settings", settings},
                {"random", random}, {"seed", seed},
                {"ranks", ranks},   {"threads", threads},
                {"metric", metric}, {"trials", Json::array()}};
  if (std::isfinite(target)) {
    document["target"] = target;
    if (const auto last = last_epochs(*this))
      document["last_epochs"] = {{"mean", last->mean}, {"deviation", last->deviation}};
  }
  for (const auto& trial : trials) document["trials"].push_back(trial_json(trial));
  return document;
}

Sweep Sweep::from_json(const Json& document) {
  try {
    Sweep sweep;
    sweep.name = json_value<std::string>(document, "name");
    sweep.configuration = json_value<std::string>(document, "configuration");
    sweep.space = texts_of(document, "space");
    sweep.settings = texts_of(document, "settings");
    sweep.random = json_value<int>(document, "random");
    sweep.seed = json_value<std::uint64_t>(document, "seed");
    sweep.ranks = json_value<int>(document, "ranks");
    sweep.threads = json_value<int>(document, "threads");
    sweep.metric = json_value<std::string>(document, "metric");
    if (document.contains("target")) sweep.target = json_value<double>(document, "target");
    for (const Json& trial : json_list(document, "trials")) sweep.trials.push_back(trial_of(trial));
    return sweep;
  } catch (const Json::exception& error) {
    throw Error(fmt::format("sweep: malformed: {}", in_plain_words(error)));
  } catch (const JsonError& error) {
    throw Error(fmt::format("sweep: malformed: {}", error.what()));
  }
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

std::vector<std::string> short_names(const std::vector<std::string>& settings) {
  std::vector<std::string> names;
  std::set<std::string> distinct;
  for (const auto& setting : settings) {
    const auto key = key_and_value(setting).first;
    names.push_back(key.substr(key.rfind('.') + 1));
    distinct.insert(names.back());
  }
  if (distinct.size() == names.size()) return names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = key_and_value(settings[i]).first;
  return names;
}

std::string describe(const Trial& trial) {
  auto parts = short_names(trial.settings);
  for (std::size_t i = 0; i < parts.size(); ++i)
    parts[i] = fmt::format("{} {}", parts[i], key_and_value(trial.settings[i]).second);
  return join(parts);
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
  std::vector<std::size_t> places(sweep.trials.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::ranges::stable_sort(places, [&](std::size_t one, std::size_t other) {
    return is_better(sweep.metric, sweep.trials[one].best, sweep.trials[other].best);
  });
  return places;
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
