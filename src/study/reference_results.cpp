#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/base/statistics.h"
#include "kolo/base/text.h"
#include "kolo/observe/format.h"
#include "kolo/study/reference.h"
#include "observe/json_numbers.h"

namespace kolo {

namespace {

using Cell = ResultsTable::Cell;
using Json = nlohmann::ordered_json;

constexpr double seconds_of_hour = 3600;

bool is_loss(const ReferenceConfig& reference) {
  return reference.metric == ReferenceMetric::val_loss;
}

std::string value_text(const ReferenceConfig& reference, double value) {
  return format_metric(name_of(reference.metric), value);
}

std::uint64_t seed_of(const Trial& trial) {
  return parse_number<std::uint64_t>(key_and_value(trial.settings.front()).second).value_or(0);
}

// "95.02 ± 0.08 %"
std::string found_text(const ReferenceResult& result) {
  const auto& reference = result.reference;
  if (result.seeds.size() < 2 || !std::isfinite(result.found))
    return value_text(reference, result.found);
  if (is_loss(reference))
    return fmt::format("{} ± {}", format_loss(result.found), format_loss(result.deviation));
  return fmt::format("{:.2f} ± {:.2f} %", 100 * result.found, 100 * result.deviation);
}

std::string each_text(const ReferenceResult& result) {
  std::vector<std::string> values;
  for (const auto& trial : result.seeds)
    values.push_back(trial.state == TrialState::done ? value_text(result.reference, trial.last)
                                                     : std::string(state_name(trial.state)));
  return join(values);
}

// "reached", "below by 0.31 points", "above by 0.012", "failed", "skipped"
std::string verdict_text(const ReferenceResult& result) {
  if (result.verdict != ReferenceVerdict::missed) return std::string(name_of(result.verdict));
  const double distance = std::abs(result.found - *result.reference.published);
  return is_loss(result.reference) ? fmt::format("above by {}", format_loss(distance))
                                   : fmt::format("below by {:.2f} points", 100 * distance);
}

ResultsTable::Mark mark_of(ReferenceVerdict verdict) {
  switch (verdict) {
    case ReferenceVerdict::reached:
      return ResultsTable::Mark::none;
    case ReferenceVerdict::missed:
      return ResultsTable::Mark::far_off;
    case ReferenceVerdict::failed:
      return ResultsTable::Mark::failed;
    case ReferenceVerdict::skipped:
      return ResultsTable::Mark::waiting;
  }
  return ResultsTable::Mark::none;
}

std::string hours_text(double hours) {
  return std::isfinite(hours) ? format_duration(seconds_of_hour * hours) : "";
}

Json published_json(const std::string& name, const ReferenceConfig& reference) {
  return {{"name", name},
          {"metric", name_of(reference.metric)},
          {"published", number_or_null(reference.published.value_or(not_measured))},
          {"source", reference.source}};
}

Json result_json(const ReferenceResult& result) {
  auto json = published_json(result.name, result.reference);
  json["found"] = number_or_null(result.found);
  json["deviation"] = number_or_null(result.deviation);
  json["hours"] = number_or_null(result.hours);
  json["verdict"] = name_of(result.verdict);
  json["problem"] = result.problem;
  json["folder"] = result.seeds.empty() ? "" : result.name;
  json["seeds"] = Json::array();
  for (const auto& trial : result.seeds)
    json["seeds"].push_back({{"seed", seed_of(trial)},
                             {"last", number_or_null(trial.last)},
                             {"epochs", trial.epochs},
                             {"hours", trial.seconds / seconds_of_hour},
                             {"state", state_name(trial.state)},
                             {"folder", trial.folder}});
  return json;
}

}  // namespace

ReferenceResult judge_reference(std::string name, const ReferenceConfig& reference,
                                std::vector<Trial> seeds) {
  ReferenceResult result{.name = std::move(name), .reference = reference, .seeds = {}};
  std::vector<double> values, hours;
  for (const auto& trial : seeds) {
    const bool is_done = trial.state == TrialState::done && std::isfinite(trial.last);
    if (is_done) {
      values.push_back(trial.last);
      hours.push_back(trial.seconds / seconds_of_hour);
    } else if (result.problem.empty()) {
      result.problem = fmt::format(
          "seed {}: {}", seed_of(trial),
          trial.problem.empty() ? fmt::format("no {} in its last epoch", name_of(reference.metric))
                                : trial.problem);
    }
  }
  result.seeds = std::move(seeds);
  if (!values.empty()) {
    const auto [mean, deviation] = mean_and_deviation(values);
    result.found = mean;
    result.deviation = deviation;
    result.hours = mean_and_deviation(hours).mean;
  }
  const double published = reference.published.value_or(not_measured);
  const bool is_good = is_loss(reference) ? result.found <= published : result.found >= published;
  result.verdict = !result.problem.empty() || values.empty() ? ReferenceVerdict::failed
                   : is_good                                 ? ReferenceVerdict::reached
                                                             : ReferenceVerdict::missed;
  return result;
}

Json FinishedReferences::to_json() const {
  Json json{{"file", file.string()}, {"entries", Json::array()}};
  for (const auto& result : results) json["entries"].push_back(result_json(result));
  return json;
}

std::string FinishedReferences::to_csv() const {
  std::string text =
      "name,metric,published,found,deviation,seeds,each,hours,verdict,source,problem\n";
  for (const auto& result : results) {
    const auto& reference = result.reference;
    std::vector<std::string> values;
    for (const auto& trial : result.seeds) values.push_back(csv_number(trial.last));
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", csv_cell(result.name),
                        name_of(reference.metric),
                        csv_number(reference.published.value_or(not_measured)),
                        csv_number(result.found), csv_number(result.deviation), result.seeds.size(),
                        join(values, " "), csv_number(result.hours), name_of(result.verdict),
                        csv_cell(reference.source), csv_cell(result.problem));
  }
  return text;
}

ResultsTable reference_list(const std::vector<ReferenceEntry>& entries) {
  ResultsTable table{.title = "Published results",
                     .columns = {{"name", false},
                                 {"published", true},
                                 {"metric", false},
                                 {"seeds", true},
                                 {"a seed takes", true},
                                 {"source", false}},
                     .rows = {},
                     .note = {}};
  for (const auto& [name, config] : entries) {
    const auto& reference = config.reference;
    auto hours = reference.hours ? hours_text(*reference.hours) : std::string("not measured");
    if (reference.hours && !reference.machine.empty())
      hours += fmt::format(" on {}", reference.machine);
    table.rows.push_back({{{name},
                           {value_text(reference, *reference.published)},
                           {std::string(name_of(reference.metric))},
                           {fmt::format("{}", reference.seeds)},
                           {hours},
                           {reference.source}}});
  }
  return table;
}

Json reference_list_json(const std::filesystem::path& file,
                         const std::vector<ReferenceEntry>& entries) {
  Json json{{"file", file.string()}, {"entries", Json::array()}};
  for (const auto& [name, config] : entries) {
    const auto& reference = config.reference;
    auto& entry = json["entries"].emplace_back(published_json(name, reference));
    entry["seeds"] = reference.seeds;
    entry["hours"] = number_or_null(reference.hours.value_or(not_measured));
    entry["machine"] = reference.machine;
  }
  return json;
}

ResultsTable reference_results(const std::vector<ReferenceResult>& results) {
  ResultsTable table{
      .title = "Reference results",
      .columns = {{"name", false},
                  {"published", true},
                  {"found", true},
                  {"each seed", false},
                  {"a seed takes", true},
                  {"verdict", false}},
      .rows = {},
      .note = "Found: the mean of the seeds' last epochs, with the standard deviation."};
  for (const auto& result : results) {
    table.rows.push_back({{{result.name},
                           {value_text(result.reference, *result.reference.published)},
                           {found_text(result)},
                           {each_text(result)},
                           {hours_text(result.hours)},
                           {verdict_text(result)}},
                          -1,
                          mark_of(result.verdict)});
    if (!result.problem.empty())
      table.note +=
          fmt::format(" {} {}: {}.", result.name, name_of(result.verdict), result.problem);
  }
  return table;
}

}  // namespace kolo
