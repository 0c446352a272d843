#pragma once

#include <span>
#include <string>

#include "kolo/report/run_record.h"

namespace kolo {

// When the first point of all a run's curves was made, in seconds since 1970; not_measured when no
// point tells.
[[nodiscard]] double start_of(const RunRecord& run);

// A unit in which the longest of some times is easy to read.
struct TimeUnit {
  std::string name;  // "seconds"
  double seconds;    // of one
};

[[nodiscard]] TimeUnit unit_for(double longest_seconds);

// For the longest of the runs, from its first point to its last.
[[nodiscard]] TimeUnit unit_for(std::span<const RunRecord> runs);

}  // namespace kolo
