#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/report/figure.h"
#include "kolo/report/results_table.h"
#include "kolo/report/run_record.h"
#include "kolo/train/observe/study.h"
#include "kolo/train/observe/sweep.h"

namespace kolo {

// Contents of a page.
struct Report {
  std::string title;
  std::optional<Study> study;
  std::optional<Sweep> sweep;
  std::vector<RunRecord> trials;  // the sweep's, in its order; of those not begun without curves
  std::vector<RunRecord> runs;
  std::size_t study_runs = 0;         // so many of them, the first, are the study's
  std::vector<std::string> warnings;  // besides those of the runs
  std::vector<double> targets;        // see RunFigureOptions
};

// Reads runs (see read_run), at most one study (a folder with study.json, or the file), which
// brings the runs of its points, and at most one sweep (sweep.json), whose trials are not among the
// runs.
//
// InputError: a path can't be read, or there are two studies or sweeps.
[[nodiscard]] Report read_report(std::span<const std::filesystem::path> paths);

// All figures, the study's and the sweep's first; curves against the first axis that the runs know.
[[nodiscard]] std::vector<FigureGroup> report_figures(const Report& report);

// All tables that have rows, the study's and the sweep's first. Runs of the study are not told of
// twice.
[[nodiscard]] std::vector<ResultsTable> report_tables(const Report& report);

// Its own warnings, and those of its runs with their names.
[[nodiscard]] std::vector<std::string> report_warnings(const Report& report);

// Everything that the page's script shows. Numbers have seven significant digits (times since 1970
// hundredths of a second); what is not finite is null. `generated`: when, in words.
[[nodiscard]] nlohmann::ordered_json report_data(const Report& report,
                                                 const std::string& generated);

// The page: one HTML file that needs nothing else and asks for nothing over the network.
[[nodiscard]] std::string report_page(const nlohmann::ordered_json& data);

}  // namespace kolo
