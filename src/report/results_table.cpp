#include "kolo/report/results_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/train/observe/format.h"
#include "report/figure_pieces.h"

namespace kolo {

namespace {

using Column = ResultsTable::Column;

enum class Better { neither, larger, smaller };

// A column of the runs' table: a number of each run, and its text.
struct Measure {
  std::string title;
  std::function<double(const RunRecord&)> value;  // not a number: unknown; infinity: never
  std::function<std::string(double)> text;
  Better better = Better::neither;
};

double last_epoch(const RunRecord& run) {
  double last = not_measured;
  for (const auto& curve : run.curves) {
    for (const auto& point : curve.points) last = std::fmax(last, point.epoch);
  }
  return last;
}

std::string percent(double value) {
  return fmt::format("{:.2f} %", 100 * value);
}
std::string count(double value) {
  return format_count(static_cast<std::int64_t>(value));
}

std::vector<Measure> measures() {
  const auto best = [](const char* quantity) {
    return [=](const RunRecord& run) { return best_validation(run, quantity); };
  };
  return {
      {"best validation accuracy", best("accuracy"), percent, Better::larger},
      {"best top-5 accuracy", best("top_accuracy"), percent, Better::larger},
      {"best validation loss", best("loss"), format_loss, Better::smaller},
      {"time per epoch", [](const RunRecord& run) { return run.results.epoch_seconds; },
       [](double value) { return fmt::format("{:.4g} s", value); }, Better::smaller},
      {"samples/s", [](const RunRecord& run) { return run.results.samples_per_second; },
       format_rate, Better::larger},
      {"ranks", [](const RunRecord& run) { return run.ranks ? *run.ranks : not_measured; }, count},
      {"parameters",
       [](const RunRecord& run) {
         return run.parameters ? static_cast<double>(*run.parameters) : not_measured;
       },
       count},
      {"epochs", last_epoch, [](double value) { return fmt::format("{:.3g}", value); }}};
}

// The best of several values; NaN if fewer than two are known, or all are equal.
double best_value(std::vector<double> known, Better better) {
  std::erase_if(known, [](double value) { return !std::isfinite(value); });
  if (better == Better::neither || known.size() < 2) return not_measured;
  const auto [smallest, largest] = std::ranges::minmax(known);
  if (smallest == largest) return not_measured;
  return better == Better::larger ? largest : smallest;
}

using RunsOfRows = std::span<const RunRecord* const>;

// Adds a column, unless no run knows the number; before the state of the runs, which is the last.
void add_column(ResultsTable& table, RunsOfRows runs, const Measure& measure) {
  std::vector<double> values;
  for (const auto* const run : runs)
    values.push_back(run == nullptr ? not_measured : measure.value(*run));
  if (std::ranges::none_of(values, [](double value) { return std::isfinite(value); })) return;
  const double best = best_value(values, measure.better);
  const auto place = std::ssize(table.columns) - (table.columns.back().title == "state" ? 1 : 0);
  table.columns.insert(table.columns.begin() + place, {measure.title, true});
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto text = std::isfinite(values[i]) ? measure.text(values[i])
                      : std::isinf(values[i])  ? "not reached"
                                               : std::string();
    auto& cells = table.rows[i].cells;
    cells.insert(cells.begin() + place, {text, values[i] == best});
  }
}

// The best value that more than half of the runs reach, a little easier so that it is short.
double common_target(RunsOfRows runs, std::string_view quantity) {
  std::vector<double> bests;
  for (const auto* const run : runs)
    if (run != nullptr) bests.push_back(best_validation(*run, quantity));
  std::erase_if(bests, [](double best) { return !std::isfinite(best); });
  if (bests.empty()) return not_measured;
  const bool is_loss = !is_better_larger(quantity);
  std::ranges::sort(bests);
  if (!is_loss) std::ranges::reverse(bests);
  const double best = bests[bests.size() / 2];
  if (!is_loss) return std::min(best, std::floor(1000 * best + 1e-9) / 1000);
  const double unit = std::pow(10, std::floor(std::log10(std::abs(best))) - 2);
  return best == 0 ? best : std::max(best, std::ceil(best / unit - 1e-9) * unit);
}

}  // namespace

void add_time_to_target(ResultsTable& table, RunsOfRows runs, std::string_view quantity,
                        double target) {
  const auto has_accuracy = [](const RunRecord* run) {
    return run != nullptr && run->find("accuracy", "validation") != nullptr;
  };
  if (quantity.empty()) quantity = std::ranges::any_of(runs, has_accuracy) ? "accuracy" : "loss";
  if (!std::isfinite(target)) target = common_target(runs, quantity);
  const bool is_loss = !is_better_larger(quantity);
  const auto seconds_to = [&](const RunRecord& run) {
    const auto points = validations(run, quantity);
    for (const auto& point : points)
      if (is_loss ? point.value <= target : point.value >= target) return point.elapsed;
    return points.empty() ? not_measured : std::numeric_limits<double>::infinity();
  };
  add_column(table, runs,
             {is_loss ? fmt::format("time to loss {:.4g}", target)
                      : fmt::format("time to {:.4g} %", 100 * target),
              seconds_to, format_duration, Better::smaller});
}

ResultsTable run_results(std::span<const RunRecord> runs) {
  ResultsTable table{.title = "Results", .columns = {{"run"}}};
  std::vector<const RunRecord*> of_rows;
  for (std::size_t number = 0; number < runs.size(); ++number) {
    const auto& run = runs[number];
    const auto name = run.is_finished ? run.name : run.name + " (not finished)";
    table.rows.push_back({{{name}}, static_cast<int>(number)});
    of_rows.push_back(&run);
  }
  for (const auto& measure : measures()) add_column(table, of_rows, measure);
  add_time_to_target(table, of_rows);
  return table;
}

ResultsTable differing_settings(std::span<const RunRecord> runs) {
  ResultsTable table{
      .title = "What the runs differ in", .columns = {{"setting"}}, .folded = "setting"};
  std::vector<const RunRecord*> configured;
  for (const auto& run : runs)
    if (!run.settings.empty()) configured.push_back(&run);
  for (const auto* const run : configured) table.columns.push_back({run->name});
  std::set<std::string> known = {"output_dir"};
  for (const auto* const run : configured) {
    for (const auto& [name, value] : run->settings) {
      if (!known.insert(name).second) continue;
      ResultsTable::Row row{{{name}}};
      for (const auto* const each : configured) row.cells.push_back({each->setting(name)});
      const bool differs = std::ranges::any_of(
          row.cells.begin() + 1, row.cells.end(),
          [&](const ResultsTable::Cell& cell) { return cell.text != row.cells[1].text; });
      if (differs) table.rows.push_back(std::move(row));
    }
  }
  return table;
}

std::string to_text(const ResultsTable& table) {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    std::size_t width = display_width(table.columns[i].title);
    for (const auto& row : table.rows) width = std::max(width, display_width(row.cells[i].text));
    widths.push_back(width);
  }
  std::string text;
  const auto add_line = [&](const auto& text_of_column) {
    std::string line;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (i > 0) line += "  ";
      line += fmt::format(fmt::runtime(table.columns[i].is_number ? "{:>{}}" : "{:<{}}"),
                          text_of_column(i), widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line([&](std::size_t i) { return table.columns[i].title; });
  for (const auto& row : table.rows) add_line([&](std::size_t i) { return row.cells[i].text; });
  if (!table.note.empty()) text += "\n" + table.note + "\n";
  return text;
}

}  // namespace kolo
