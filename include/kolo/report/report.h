#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/report/figure.h"
#include "kolo/report/run_record.h"
#include "kolo/train/observe/study.h"
#include "kolo/train/observe/sweep.h"

namespace kolo {

// Contents of a page.
struct Report {
  std::string title;
  std::optional<Study> study;
  std::optional<Sweep> sweep;
  std::vector<RunRecord> trials;  // the sweep's, in its order; without curves if not begun
  std::vector<RunRecord> runs;
  std::size_t study_runs = 0;  // number of the study's runs, which come first
  // Place of a run among them, by the study's points; none where it left no curves.
  std::vector<std::optional<std::size_t>> runs_of_points;
  std::vector<std::string> warnings;  // besides those of the runs
};

// Reads runs (see read_run), at most one study (a folder with study.json, or the file), which
// brings the runs of its points, and at most one sweep (sweep.json), whose trials are not among the
// runs.
//
// InputError: a path can't be read, or there are two studies or sweeps.
[[nodiscard]] Report read_report(std::span<const std::filesystem::path> paths);

// Everything that the page's script shows: figures and tables in `sections`, the study's and the
// sweep's first, `warnings`, those of runs with their names, and what is chosen at first. What is
// not finite is null. `generated`: when, in words.
[[nodiscard]] nlohmann::ordered_json report_data(const Report& report,
                                                 const std::string& generated);

// The page: one HTML file that needs nothing else and asks for nothing over the network.
[[nodiscard]] std::string report_page(const nlohmann::ordered_json& data);

}  // namespace kolo
