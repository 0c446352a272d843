#pragma once

#include <filesystem>
#include <functional>
#include <memory>
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
  std::optional<CurveAxis> axis;      // that curves stand against at first; none: the first known
};

// Reads runs (see read_run), at most one study (a folder with study.json, or the file), which
// brings the runs of its points, and at most one sweep (sweep.json), whose trials are not among the
// runs.
//
// InputError: a path can't be read, or there are two studies or sweeps. With `wait` what can't be
// read is a warning instead.
[[nodiscard]] Report read_report(std::span<const std::filesystem::path> paths, bool wait = false);

// All figures, the study's and the sweep's first; curves against the report's axis.
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

// The page: one HTML file that needs nothing else and asks for nothing over the network. `live`: it
// asks the server it came from for /data.json every few seconds.
[[nodiscard]] std::string report_page(const nlohmann::ordered_json& data, bool live = false);

// Serves one report over HTTP to this machine alone: the page at /, its data at /data.json. Other
// names for this machine than its own (a page elsewhere that has its name point here) get nothing.
// Up to 512 connections are served at a time; one that says nothing for 5 s is closed.
class ReportServer {
 public:
  // `data` is asked for every answer, by one thread at a time; what it throws is answered with
  // status 500. Port 0: any that is free. InputError: the port is taken.
  ReportServer(int port, std::function<nlohmann::ordered_json()> data);
  ReportServer(const ReportServer&) = delete;
  ReportServer& operator=(const ReportServer&) = delete;
  // Answers what was asked already, then ends.
  ~ReportServer();

  [[nodiscard]] int port() const;
  // False once it can't serve any more.
  [[nodiscard]] bool is_running() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace kolo
