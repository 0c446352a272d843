#include "kolo/report/results_table.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "kolo/train/observe/format.h"

namespace kolo {

namespace {

// Column of a study's table, and its text for a point; empty: nothing.
struct PointColumn {
  std::string title;
  bool is_number;
  std::function<std::string(const StudyPoint&)> text;
  std::string usual = {};  // a column that says nothing else is left out
};

std::string text_or_nothing(const std::string& format, double value) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : "";
}

// "12.3 ± 0.4"
std::string with_deviation(const std::string& value, const std::string& deviation) {
  return deviation.empty() ? value : fmt::format("{} ± {}", value, deviation);
}

std::string epoch_text(const StudyPoint& point) {
  const auto& results = point.results;
  return with_deviation(text_or_nothing("{:.4g} s", results.epoch_seconds),
                        text_or_nothing("{:.2g}", results.epoch_seconds_deviation));
}

std::string throughput_text(const StudyPoint& point) {
  const auto& results = point.results;
  if (!std::isfinite(results.samples_per_second)) return {};
  const double deviation = results.samples_per_second_deviation;
  return with_deviation(format_rate(results.samples_per_second),
                        std::isfinite(deviation) ? format_rate(deviation) : "");
}

std::string state_text(const StudyPoint& point) {
  if (!point.problem.empty()) return fmt::format("{}: {}", state_name(point.state), point.problem);
  if (point.state == StudyPointState::submitted && !point.job.empty())
    return fmt::format("submitted as {}", point.job);
  return std::string(state_name(point.state));
}

// Beside each other: what the process has taken and what the formula says of a part of it. Only
// where it is what the study is about.
std::string memory_of(const StudyPoint& point, double bytes) {
  if (point.spatial.empty() || !std::isfinite(bytes)) return {};
  return format_bytes(static_cast<std::uint64_t>(bytes));
}

std::vector<PointColumn> columns_of(const StudyPoint& first) {
  const auto result = [](const char* format, double StudyResults::*member, double factor) {
    return [=](const StudyPoint& point) {
      return text_or_nothing(format, factor * (point.results.*member));
    };
  };
  using Point = const StudyPoint&;
  const auto warmup = [](Point point) { return fmt::format("{:g}", point.warmup_epochs); };
  return {
      {"ranks", true, [](Point point) { return fmt::format("{}", point.ranks); }},
      {"nodes", true, [](Point point) { return fmt::format("{}", point.nodes); }, "1"},
      {"cut", false, cut_of},
      {first.spatial.empty() ? "batch/rank" : "batch", true,
       [](Point point) { return format_count(point.batch_size); }},
      {"lr scaling", false, [](Point point) { return point.lr_scaling; }, first.lr_scaling},
      {"warm-up", true, warmup, warmup(first)},
      {"epoch", true, epoch_text},
      {"samples/s", true, throughput_text},
      {"efficiency", true,
       [](Point point) { return text_or_nothing("{:.1f} %", 100 * point.efficiency); }},
      {"accuracy", true, result("{:.2f} %", &StudyResults::val_accuracy, 100)},
      {"best accuracy", true, result("{:.2f} %", &StudyResults::best_val_accuracy, 100)},
      {"loss", true, result("{:.4f}", &StudyResults::val_loss, 1)},
      {"step, ms", true, result("{:.3g}", &StudyResults::step_seconds, 1000)},
      {"exposed, ms", true, result("{:.3g}", &StudyResults::exposed_communication_seconds, 1000)},
      {"data, ms", true, result("{:.3g}", &StudyResults::data_wait_seconds, 1000)},
      {"memory", true,
       [](Point point) { return memory_of(point, point.results.peak_memory_bytes); }},
      {"kept", true, [](Point point) { return memory_of(point, point.kept_bytes); }},
      {"state", false, state_text, "done"}};
}

ResultsTable::Mark mark_of(StudyPointState state) {
  switch (state) {
    case StudyPointState::failed:
      return ResultsTable::Mark::failed;
    case StudyPointState::pending:
    case StudyPointState::submitted:
      return ResultsTable::Mark::waiting;
    case StudyPointState::done:
      return ResultsTable::Mark::none;
  }
  return ResultsTable::Mark::none;
}

bool shares_cores(const Study& study) {
  return std::ranges::any_of(study.points, [&](const StudyPoint& point) {
    return point.ranks > study.cores * point.nodes && point.state == StudyPointState::done;
  });
}

std::string note_of(const Study& study) {
  std::string note = fmt::format(
      "{} scaling: the batch of {} is fixed. Accuracy and loss are of validation, after the last "
      "epoch; exposed, data: what a step waits for other ranks and for batches.",
      study.scaling == "weak" ? "Weak" : "Strong",
      study.scaling == "weak" ? "a rank" : "all ranks together");
  if (study.parallel == "spatial")
    note +=
        " All ranks share each sample, cut as it says. Memory: the most that rank 0's process has "
        "taken; kept: what of it a rank keeps of samples and activations for backward, by "
        "formula.";
  if (shares_cores(study))
    note += fmt::format(
        " More than {} rank{} share this machine's cores: their efficiency says nothing of a "
        "larger one.",
        study.cores, study.cores == 1 ? "" : "s");
  return note;
}

}  // namespace

ResultsTable study_results(const Study& study) {
  ResultsTable table{.title = "The study", .columns = {}, .rows = {}, .note = note_of(study)};
  for (const auto& point : study.points) table.rows.push_back({{}, -1, mark_of(point.state)});
  if (study.points.empty()) return table;
  for (const auto& column : columns_of(study.points.front())) {
    std::vector<std::string> texts;
    for (const auto& point : study.points) texts.push_back(column.text(point));
    const auto all_are = [&](const std::string& text) {
      return std::ranges::count(texts, text) == std::ssize(texts);
    };
    if (all_are("") || all_are(column.usual)) continue;
    table.columns.push_back({column.title, column.is_number});
    for (std::size_t i = 0; i < texts.size(); ++i) table.rows[i].cells.push_back({texts[i]});
  }
  return table;
}

}  // namespace kolo
