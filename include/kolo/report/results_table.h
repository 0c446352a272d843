#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/base/enum_names.h"
#include "kolo/report/run_record.h"
#include "kolo/train/observe/study.h"
#include "kolo/train/observe/sweep.h"

namespace kolo {

// A table for people. Pure data; every row has as many cells as there are columns.
struct ResultsTable {
  struct Column {
    std::string title;
    bool is_number = false;  // stands to the right
  };
  struct Cell {
    std::string text;      // empty: unknown
    bool is_best = false;  // of its column
  };
  enum class Mark : std::uint8_t { none, failed, waiting };
  friend constexpr auto enum_names(Mark) {
    return std::to_array<EnumName<Mark>>(
        {{Mark::none, ""}, {Mark::failed, "failed"}, {Mark::waiting, "waiting"}});
  }
  struct Row {
    std::vector<Cell> cells;
    int run = -1;  // number of the run that it describes; -1: none
    Mark mark = Mark::none;
  };
  std::string title;
  std::vector<Column> columns = {};
  std::vector<Row> rows = {};
  std::string note = {};  // a sentence below it; empty: none
  // Name of a row, "setting", where the page folds those after the first twelve.
  std::string folded = {};
};

// A row per run: best validation accuracy, top-5 accuracy and loss, mean epoch time and throughput,
// parameters, ranks, epochs, time to a target. Columns without any value are left out.
[[nodiscard]] ResultsTable run_results(std::span<const RunRecord> runs);

// Adds a column "time to 84.3 %": how long training took until a validation was as good as a
// target. runs[i] is that of row i, null: none. `quantity`: accuracy | loss; empty: accuracy where
// a run has it. Without a target the best is taken that more than half of the runs reach. Nothing
// is added where no run tells when it reached it.
void add_time_to_target(ResultsTable& table, std::span<const RunRecord* const> runs,
                        std::string_view quantity = "", double target = not_measured);

// A row for each setting that differs between runs that have a configuration, a column a run; no
// rows if none differs. output_dir doesn't count.
[[nodiscard]] ResultsTable differing_settings(std::span<const RunRecord> runs);

// A row per point of the study. Columns without any value are left out, and so are learning-rate
// scaling and warm-up where all are the same, nodes where all are 1, and state where all are done.
[[nodiscard]] ResultsTable study_results(const Study& study);

// A row per trial of the sweep, the best first: its values of the swept keys, the best value of the
// metric and its epoch, the time taken, and the state where not all are done.
[[nodiscard]] ResultsTable sweep_results(const Sweep& sweep);

// A row for each way to set the keys but the seed, the best first, with mean and standard
// deviation; no rows where each has one seed.
[[nodiscard]] ResultsTable seed_results(const Sweep& sweep);

// Columns that line up, as UTF-8 text, and the note below them.
[[nodiscard]] std::string to_text(const ResultsTable& table);

}  // namespace kolo
