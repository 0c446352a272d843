#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kolo {

// What a thread of a rank does for a while. Microseconds from the timeline's beginning.
struct TimelineSpan {
  int rank = 0;
  std::int64_t thread = 0;
  std::string name;
  double begin = 0, duration = 0;

  [[nodiscard]] double end() const { return begin + duration; }
};

// One step, as all ranks did it.
struct TimelineStep {
  std::int64_t number = 0;
  double begin = 0, end = 0;        // of the first and the last rank
  std::vector<TimelineSpan> spans;  // those that touch it, in the order of the file
  std::map<std::pair<int, std::int64_t>, std::string> thread_names;  // by rank and thread
};

// See timeline_picture().
[[nodiscard]] TimelineStep read_timeline_step(const std::filesystem::path& file, std::int64_t step);

}  // namespace kolo
