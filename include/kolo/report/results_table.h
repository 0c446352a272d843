#pragma once

#include <cstdint>
#include <span>
#include <string>
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
    int run = -1;  // the number of the run that it tells of; -1: of none
    Mark mark = Mark::none;
  };
  std::string title;
  std::vector<Column> columns = {};
  std::vector<Row> rows = {};
  std::string note = {};  // a sentence below it; empty: none
};

// A row a run: best validation accuracy, top-5 accuracy and loss, mean epoch time and throughput,
// parameters, ranks, epochs. Columns of which no run knows anything are left out.
[[nodiscard]] ResultsTable run_results(std::span<const RunRecord> runs);

// A row a setting that is not the same in all runs that have a configuration, a column a run.
// Without rows when there are none, or fewer than two such runs. Where a run is written to is no
// difference.
[[nodiscard]] ResultsTable differing_settings(std::span<const RunRecord> runs);

// A row a point of the study. Columns of which no point knows anything are left out, and so are
// nodes, learning-rate scaling, warm-up and state where they are the same, or nothing but one node
// and done.
[[nodiscard]] ResultsTable study_results(const Study& study);

// A row a trial of the sweep, the best first: its values of the swept keys, the best of its metric
// and when that was, how long it has taken, and its state where not all are done.
[[nodiscard]] ResultsTable sweep_results(const Sweep& sweep);

// Columns that line up, as UTF-8 text, and the note below them.
[[nodiscard]] std::string to_text(const ResultsTable& table);

}  // namespace kolo
