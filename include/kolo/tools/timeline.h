#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kolo/layout/pipeline_schedule.h"

namespace kolo {

// Figures of a timeline about ranks that share a network or its samples.

// A step of a pipeline, from the beginning of its first pass to the end of its last one.
struct PipelinedStep {
  std::int64_t number = 0;
  PipelineShape shape;                // the spans don't tell the schedule; gpipe is as long as 1f1b
  std::map<int, double> idle_shares;  // by rank: of that time, in which it computes nothing
  // ideal_idle_share(); none where ranks are missing.
  std::optional<double> ideal;
};

// A rank's halos, per step on average.
struct HaloTotals {
  double bytes_sent = 0;
  double messages_sent = 0;
  // In which any are on their way, sent or received: from when both ends have come.
  double seconds = 0;
};

struct TimelineSummary {
  std::vector<PipelinedStep> pipelined;  // by number
  std::map<int, HaloTotals> halos;       // by rank that has any
};

// `file`: of all ranks, as merge_timelines() writes it. Passes of a pipeline are spans named
// "forward stage 2 micro-batch 3" and "backward ..." within a step; where there are rows of a
// device these count. Halos are messages named "halo". Reads the file line by line, twice.
// InputError: it can't be read.
[[nodiscard]] TimelineSummary summarize_timeline(const std::filesystem::path& file);

// Lines for a terminal; "" where there is neither.
[[nodiscard]] std::string to_text(const TimelineSummary& summary);

}  // namespace kolo
