#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "kolo/layout/pipeline_schedule.h"

namespace kolo {

// Idle ranks of a pipeline: shares of the time from the beginning of a step's first pass to the end
// of its last one.
struct PipelineIdle {
  std::size_t steps = 0;
  PipelineShape shape;                   // without the schedule, which spans don't tell
  std::map<int, double> idle_fractions;  // by rank: mean share in which it computes nothing
  // ideal_idle_fraction(); none where ranks are missing.
  std::optional<double> ideal;
};

// A rank's halos, per step on average.
struct HaloTotals {
  double bytes_sent = 0;
  double messages_sent = 0;
  // Time in which at least one message was on its way, counted from when both ends had come.
  double seconds = 0;
};

struct TimelineSummary {
  std::optional<PipelineIdle> pipeline;
  std::map<int, HaloTotals> halos;  // by rank that has any
};

// `file`: of all ranks, as merge_timelines() writes it. Passes of a pipeline are spans named
// "forward stage 2 micro-batch 3" and "backward ..." within a step; where there are rows of a
// device these count. Halos are messages named "halo". Reads the file line by line, twice.
// InputError: it can't be read.
[[nodiscard]] TimelineSummary summarize_timeline(const std::filesystem::path& file);

// Lines for a terminal; empty without pipeline and halos.
[[nodiscard]] std::string to_text(const TimelineSummary& summary);

}  // namespace kolo
