#include "cli/eval/evaluation_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kolo/observe/format.h"

namespace kolo {

namespace {

constexpr std::int64_t most_columns = 20;  // of a matrix that is still readable

std::string name_of(const EvaluationReport& report, std::int64_t label) {
  const auto index = static_cast<std::size_t>(label);
  return index < report.class_names.size() ? report.class_names[index] : std::to_string(label);
}

std::size_t width_of_names(const EvaluationReport& report) {
  std::size_t width = 5;  // of "class"
  for (std::int64_t label = 0; label < report.matrix->classes(); ++label)
    width = std::max(width, name_of(report, label).size());
  return width;
}

std::span<const std::int64_t> row_of(const ConfusionMatrix& matrix, std::int64_t target) {
  const auto classes = static_cast<std::size_t>(matrix.classes());
  return matrix.counts().subspan(static_cast<std::size_t>(target) * classes, classes);
}

std::int64_t sum_of(std::span<const std::int64_t> row) {
  std::int64_t sum = 0;
  for (const auto count : row) sum += count;
  return sum;
}

// The class that samples of `target` are most often mistaken for, "-" when none is.
std::string usual_mistake(const EvaluationReport& report, std::int64_t target) {
  const auto row = row_of(*report.matrix, target);
  std::int64_t worst = -1;
  for (std::int64_t label = 0; label < report.matrix->classes(); ++label) {
    const auto count = row[static_cast<std::size_t>(label)];
    if (label == target || count == 0) continue;
    if (worst < 0 || count > row[static_cast<std::size_t>(worst)]) worst = label;
  }
  if (worst < 0) return "-";
  const double share =
      static_cast<double>(row[static_cast<std::size_t>(worst)]) / static_cast<double>(sum_of(row));
  return fmt::format("{} ({:.2f} %)", name_of(report, worst), 100 * share);
}

std::string table_of_classes(const EvaluationReport& report) {
  const auto width = width_of_names(report);
  std::string text = fmt::format("\n{:<{}}  {:>8}  {:>9}  {}\n", "class", width, "samples",
                                 "accuracy", "mistaken for");
  const auto accuracies = report.matrix->accuracy_by_class();
  for (std::int64_t label = 0; label < report.matrix->classes(); ++label) {
    const double accuracy = accuracies[static_cast<std::size_t>(label)];
    text += fmt::format("{:<{}}  {:>8}  {:>9}  {}\n", name_of(report, label), width,
                        format_count(sum_of(row_of(*report.matrix, label))),
                        std::isfinite(accuracy) ? fmt::format("{:.2f} %", 100 * accuracy) : "-",
                        usual_mistake(report, label));
  }
  return text;
}

std::string table_of_counts(const EvaluationReport& report) {
  const auto classes = report.matrix->classes();
  if (classes > most_columns) {
    return fmt::format("\nThe confusion matrix of {} classes is in --json.\n", classes);
  }
  const auto width = width_of_names(report);
  std::string text =
      "\nConfusion matrix: a row is what a sample is, a column what it was taken for\n";
  text += std::string(width, ' ');
  for (std::int64_t label = 0; label < classes; ++label) text += fmt::format("{:>7}", label);
  text += "\n";
  for (std::int64_t target = 0; target < classes; ++target) {
    text += fmt::format("{:<{}}", name_of(report, target), width);
    for (const auto count : row_of(*report.matrix, target)) text += fmt::format("{:>7}", count);
    text += "\n";
  }
  return text;
}

nlohmann::ordered_json finite_or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::string to_text(const EvaluationReport& report) {
  const auto& sums = report.sums;
  std::string text = fmt::format("{}, {} (epoch {}, step {})\n{} data, {} samples, {} rank{}\n\n",
                                 report.model, report.checkpoint, report.epoch, report.step,
                                 report.split, format_count(std::llround(sums.samples)),
                                 report.ranks, report.ranks == 1 ? "" : "s");
  if (!report.matrix) return text + fmt::format("loss      {}\n", format_loss(sums.mean_loss()));
  text += fmt::format("loss      {:.5f}\naccuracy  {:.2f} %\n", sums.mean_loss(),
                      100 * sums.accuracy());
  if (report.top > 0)
    text += fmt::format("top {:<4}  {:.2f} %\n", report.top, 100 * sums.top_accuracy());
  return text + table_of_classes(report) + table_of_counts(report);
}

nlohmann::ordered_json to_json(const EvaluationReport& report) {
  const auto& sums = report.sums;
  nlohmann::ordered_json json{
      {"model", report.model},   {"checkpoint", report.checkpoint},
      {"epoch", report.epoch},   {"step", report.step},
      {"data", report.split},    {"samples", std::llround(sums.samples)},
      {"n_ranks", report.ranks}, {"loss", finite_or_null(sums.mean_loss())}};
  if (!report.matrix) return json;
  json["accuracy"] = finite_or_null(sums.accuracy());
  if (report.top > 0)
    json[fmt::format("top_{}_accuracy", report.top)] = finite_or_null(sums.top_accuracy());
  json["classes"] = nlohmann::ordered_json::array();
  json["confusion_matrix"] = nlohmann::ordered_json::array();
  const auto accuracies = report.matrix->accuracy_by_class();
  for (std::int64_t label = 0; label < report.matrix->classes(); ++label) {
    const auto row = row_of(*report.matrix, label);
    json["classes"].push_back(
        {{"name", name_of(report, label)},
         {"samples", sum_of(row)},
         {"accuracy", finite_or_null(accuracies[static_cast<std::size_t>(label)])}});
    json["confusion_matrix"].push_back(std::vector<std::int64_t>(row.begin(), row.end()));
  }
  return json;
}

}  // namespace kolo
