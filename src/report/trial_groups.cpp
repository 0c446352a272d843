#include "report/trial_groups.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "kolo/base/statistics.h"
#include "kolo/base/text.h"

namespace kolo {

namespace {

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

bool is_seed(const std::string& setting) {
  return key_and_value(setting).first == "seed";
}

std::vector<TrialGroup> groups_of_trials(const Sweep& sweep) {
  std::vector<TrialGroup> groups;
  std::vector<std::vector<std::string>> known;
  for (std::size_t place = 0; place < sweep.trials.size(); ++place) {
    auto settings = sweep.trials[place].settings;
    std::erase_if(settings, is_seed);
    const auto found = std::ranges::find(known, settings) - known.begin();
    if (found == std::ssize(known)) {
      known.push_back(std::move(settings));
      groups.emplace_back();
    }
    groups[static_cast<std::size_t>(found)].trials.push_back(place);
  }
  for (auto& group : groups) {
    std::vector<double> values;
    for (const auto place : group.trials)
      if (const double best = sweep.trials[place].best; std::isfinite(best)) values.push_back(best);
    if (values.empty()) continue;
    const auto [mean, deviation] = mean_and_deviation(values);
    group.mean = mean;
    group.deviation = deviation;
  }
  return groups;
}

std::vector<std::string> names_in_words(const std::vector<std::string>& settings) {
  std::vector<std::string> names;
  for (const auto& setting : settings) names.push_back(key_in_words(key_and_value(setting).first));
  if (std::set(names.begin(), names.end()).size() == names.size()) return names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = key_and_value(settings[i]).first;
  return names;
}

std::string in_words(const Trial& trial) {
  auto words = names_in_words(trial.settings);
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = fmt::format("{} {}", words[i], key_and_value(trial.settings[i]).second);
  return join(words);
}

}  // namespace kolo
