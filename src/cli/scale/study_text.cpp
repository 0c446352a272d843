#include "cli/scale/study_text.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "kolo/observe/format.h"

namespace kolo {

namespace {

using Row = std::vector<std::string>;

std::string with_deviation(double value, double deviation) {
  if (!std::isfinite(value)) return "";
  if (!std::isfinite(deviation)) return fmt::format("{:.4g}", value);
  return deviation < 100 ? fmt::format("{:.4g} ± {:.2g}", value, deviation)
                         : fmt::format("{:.4g} ± {:.0f}", value, deviation);
}

std::string percent(double share) {
  return std::isfinite(share) ? fmt::format("{:.1f} %", 100 * share) : "";
}

std::string milliseconds(double seconds) {
  return std::isfinite(seconds) ? fmt::format("{:.3g}", 1e3 * seconds) : "";
}

bool any_accuracy(const Study& study) {
  return std::ranges::any_of(study.points, [](const StudyPoint& point) {
    return std::isfinite(point.results.best_val_accuracy);
  });
}

std::string quality(const StudyResults& results, bool accuracy) {
  if (accuracy)
    return std::isfinite(results.best_val_accuracy)
               ? fmt::format("{:.2f} %", 100 * results.best_val_accuracy)
               : "";
  return std::isfinite(results.best_val_loss) ? format_loss(results.best_val_loss) : "";
}

Row row_of(const StudyPoint& point, bool accuracy) {
  const auto& results = point.results;
  return {std::to_string(point.ranks),
          std::to_string(point.batch_size),
          point.lr_scaling,
          fmt::format("{}", point.warmup_epochs),
          with_deviation(results.epoch_seconds, results.epoch_seconds_deviation),
          with_deviation(results.samples_per_second, results.samples_per_second_deviation),
          percent(point.efficiency),
          milliseconds(results.step_seconds),
          milliseconds(results.data_wait_seconds),
          milliseconds(results.exposed_communication_seconds),
          quality(results, accuracy),
          point.state == StudyPointState::done ? "" : std::string(state_name(point.state))};
}

// Columns as people see them: ± is one, though two bytes.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char letter) { return (static_cast<unsigned char>(letter) & 0xC0) != 0x80; }));
}

std::string lined_up(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows[0].size());
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += std::string(widths[i] - width_of(row[i]) + (i == 0 ? 0 : 2), ' ') + row[i];
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::string to_text(const Study& study) {
  const bool accuracy = any_accuracy(study);
  std::vector<Row> rows{{"ranks", "batch", "lr scaling", "warm-up", "epoch s", "samples/s",
                         "efficiency", "step ms", "data ms", "comm ms",
                         accuracy ? "best accuracy" : "best loss", ""}};
  for (const StudyPoint& point : study.points) rows.push_back(row_of(point, accuracy));
  std::string text = fmt::format(
      "{} scaling of {}; batch: of a rank; data, comm: what a step waits "
      "for batches and for other ranks\n\n",
      study.scaling, study.configuration);
  text += lined_up(rows);
  for (const StudyPoint& point : study.points)
    if (!point.problem.empty()) text += fmt::format("\n{} ranks: {}", point.ranks, point.problem);
  const bool shares_cores = std::ranges::any_of(study.points, [&](const StudyPoint& point) {
    return point.ranks > study.cores * point.nodes && point.state == StudyPointState::done;
  });
  if (shares_cores)
    text += fmt::format(
        "\nMore than {} rank{} share the cores of this machine: their efficiency says "
        "nothing of a larger one.\n",
        study.cores, study.cores == 1 ? "" : "s");
  return text;
}

}  // namespace kolo
