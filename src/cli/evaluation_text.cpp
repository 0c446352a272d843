#include "cli/evaluation_text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kolo/base/text.h"
#include "kolo/run/evaluate_run.h"
#include "kolo/train/observe/format.h"

namespace kolo {

namespace {

// Width of a column of names below a heading.
std::size_t width_of(std::string_view heading, const std::vector<std::string>& names) {
  auto width = heading.size();
  for (const auto& name : names) width = std::max(width, display_width(name));
  return width;
}

std::span<const std::int64_t> row_of(const ConfusionMatrix& matrix, std::int64_t target) {
  const auto classes = static_cast<std::size_t>(matrix.classes());
  return matrix.counts().subspan(static_cast<std::size_t>(target) * classes, classes);
}

std::int64_t sum_of(std::span<const std::int64_t> row) {
  return std::reduce(row.begin(), row.end());
}

// Class that samples of `target` are most often mistaken for; "-" if none.
std::string usual_mistake(const RunEvaluation& report, std::int64_t target) {
  const auto row = row_of(*report.matrix, target);
  std::vector<std::int64_t> mistakes(row.begin(), row.end());
  mistakes[static_cast<std::size_t>(target)] = 0;
  const auto worst = std::ranges::max_element(mistakes);
  if (*worst == 0) return "-";
  const double share = static_cast<double>(*worst) / static_cast<double>(sum_of(row));
  return fmt::format("{} ({:.2f} %)", report.class_name(worst - mistakes.begin()), 100 * share);
}

// Names of the classes, behind their numbers where they don't begin with these.
std::vector<std::string> numbered_names(const RunEvaluation& report) {
  std::vector<std::string> names;
  for (std::int64_t label = 0; label < report.matrix->classes(); ++label) {
    const auto number = fmt::to_string(label), name = report.class_name(label);
    names.push_back(name.starts_with(number) ? name : number + " " + name);
  }
  return names;
}

std::string table_of_classes(const RunEvaluation& report) {
  const auto names = numbered_names(report);
  const auto width = width_of("class", names);
  std::string text = fmt::format("\n{:<{}}  {:>8}  {:>9}  {}\n", "class", width, "samples",
                                 "accuracy", "mistaken for");
  const auto accuracies = report.matrix->accuracy_by_class();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto label = static_cast<std::int64_t>(i);
    text += fmt::format(
        "{:<{}}  {:>8}  {:>9}  {}\n", names[i], width,
        format_count(sum_of(row_of(*report.matrix, label))),
        std::isfinite(accuracies[i]) ? fmt::format("{:.2f} %", 100 * accuracies[i]) : "-",
        usual_mistake(report, label));
  }
  return text;
}

std::string table_of_counts(const RunEvaluation& report) {
  constexpr std::size_t widest_column = 7, screen = 80;
  const auto names = numbered_names(report);
  const auto width = width_of("", names);
  const auto left = screen - std::min(screen, width);
  const auto column = std::min(widest_column, left / names.size());
  const auto largest = std::ranges::max(report.matrix->counts());
  if (column <= fmt::formatted_size("{}", largest)) {
    return fmt::format("\nThe confusion matrix of {} classes is in --json.\n", names.size());
  }
  std::string text =
      "\nConfusion matrix: a row is what a sample is, a column what it was taken for\n";
  text += std::string(width, ' ');
  for (std::size_t label = 0; label < names.size(); ++label)
    text += fmt::format("{:>{}}", label, column);
  text += "\n";
  for (std::size_t target = 0; target < names.size(); ++target) {
    text += fmt::format("{:<{}}", names[target], width);
    for (const auto count : row_of(*report.matrix, static_cast<std::int64_t>(target)))
      text += fmt::format("{:>{}}", count, column);
    text += "\n";
  }
  return text;
}

// "-" where there is nothing to explain.
std::string text_of_r_squared(const ErrorSums& sums) {
  return sums.variation == 0 ? "-" : fmt::format("{:.5g}", sums.r_squared());
}

std::string text_of_errors(const RunEvaluation& report) {
  const auto all = report.errors_of_all();
  auto text =
      fmt::format("MAE       {:.5g}\nRMSE      {:.5g}\nR2        {}\n", all.mean_absolute_error(),
                  all.root_mean_squared_error(), text_of_r_squared(all));
  if (report.errors.size() > 1) {
    std::vector<std::string> names;
    for (const auto& target : report.errors) names.push_back(target.name);
    const auto width = width_of("target", names);
    text += fmt::format("\n{:<{}}  {:>11}  {:>11}  {:>11}\n", "target", width, "MAE", "RMSE", "R2");
    for (const auto& [name, numbers, sums] : report.errors) {
      text += fmt::format("{:<{}}  {:>11.5g}  {:>11.5g}  {:>11}\n", name, width,
                          sums.mean_absolute_error(), sums.root_mean_squared_error(),
                          text_of_r_squared(sums));
    }
  }
  const auto is_constant = [](const TargetErrors& target) { return target.sums.variation == 0; };
  if (std::ranges::any_of(report.errors, is_constant))
    text += "\nR2 is - where all targets are equal: there is no variation to explain.\n";
  return text;
}

// JSON has null for what is not finite.
void add_errors(nlohmann::ordered_json& json, const ErrorSums& sums) {
  json["mae"] = sums.mean_absolute_error();
  json["rmse"] = sums.root_mean_squared_error();
  json["r2"] = sums.r_squared();
}

void add_classes(nlohmann::ordered_json& json, const RunEvaluation& report) {
  json["accuracy"] = report.sums.accuracy();
  if (report.top > 0) json[fmt::format("top_{}_accuracy", report.top)] = report.sums.top_accuracy();
  json["classes"] = nlohmann::ordered_json::array();
  json["confusion_matrix"] = nlohmann::ordered_json::array();
  const auto accuracies = report.matrix->accuracy_by_class();
  for (std::int64_t label = 0; label < report.matrix->classes(); ++label) {
    const auto row = row_of(*report.matrix, label);
    json["classes"].push_back({{"name", report.class_name(label)},
                               {"samples", sum_of(row)},
                               {"accuracy", accuracies[static_cast<std::size_t>(label)]}});
    json["confusion_matrix"].push_back(std::vector<std::int64_t>(row.begin(), row.end()));
  }
}

}  // namespace

std::string to_text(const RunEvaluation& report) {
  const auto& sums = report.sums;
  auto text = fmt::format("{}, {} (epoch {}, step {})\n{} data, {} samples, {}\n\n", report.model,
                          report.checkpoint, report.epoch, report.step, report.split,
                          format_count(std::llround(sums.samples)), counted(report.ranks, "rank"));
  if (!report.matrix) {
    text += fmt::format("loss      {}\n", format_loss(sums.mean_loss()));
    return report.errors.empty() ? text : text + text_of_errors(report);
  }
  text += fmt::format("loss      {:.5f}\naccuracy  {:.2f} %\n", sums.mean_loss(),
                      100 * sums.accuracy());
  if (report.top > 0)
    text += fmt::format("top {:<4}  {:.2f} %\n", report.top, 100 * sums.top_accuracy());
  return text + table_of_classes(report) + table_of_counts(report);
}

std::string to_json(const RunEvaluation& report) {
  const auto& sums = report.sums;
  nlohmann::ordered_json json{{"model", report.model},   {"checkpoint", report.checkpoint},
                              {"epoch", report.epoch},   {"step", report.step},
                              {"data", report.split},    {"samples", std::llround(sums.samples)},
                              {"n_ranks", report.ranks}, {"loss", sums.mean_loss()}};
  if (report.matrix)
    add_classes(json, report);
  else if (!report.errors.empty())
    add_errors(json, report.errors_of_all());
  for (const auto& target : report.errors)  // none with a matrix
    add_errors(json["targets"].emplace_back(nlohmann::ordered_json{{"name", target.name}}),
               target.sums);
  // A folder's name may hold any bytes.
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace kolo
