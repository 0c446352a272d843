#include <algorithm>
#include <fstream>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"
#include "kolo/parallel/merge_timelines.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t text_limit = std::size_t{1} << 20;  // bytes between two writes

std::vector<fs::path> files_of_ranks(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("rank-") && name.ends_with(".json")) files.push_back(entry.path());
  }
  if (error) {
    throw InputError(
        fmt::format("timeline: cannot read the folder {}: {}", folder.string(), error.message()));
  }
  if (files.empty()) {
    throw InputError(fmt::format(
        "timeline: {} holds no rank-*.json; give the folder that KOLO_TIMELINE named, or the "
        "timeline/ in a run's folder",
        folder.string()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Every event ends with the closing braces of its arguments and its own; a cut one doesn't.
bool is_whole(std::string_view event) {
  return event.starts_with('{') && event.ends_with("}}");
}

// Files of ranks begin with "["; a rank that was killed before that may have left nothing.
void require_rank_file(const fs::path& path, std::string_view first_line) {
  if (first_line == "[") return;
  throw InputError(fmt::format(
      "timeline: {} is no rank's timeline: it begins with {}, expected [ and an event a line; "
      "remove it to go on without it",
      path.string(), quote(first_line)));
}

}  // namespace

MergedTimelines merge_timelines(const fs::path& folder, const fs::path& output) {
  MergedTimelines merged;
  const auto files = files_of_ranks(folder);
  AtomicFile file(output);
  std::string text = "[";
  for (const auto& path : files) {
    std::ifstream input(path, std::ios::binary);
    if (!input) throw InputError(fmt::format("timeline: cannot read {}", path.string()));
    ++merged.files;
    bool is_first = true;
    for (std::string line; std::getline(input, line);) {
      if (line.ends_with(',')) line.pop_back();
      const std::string_view event = line;
      if (std::exchange(is_first, false)) require_rank_file(path, event);
      if (event.empty() || event == "[" || event == "]") continue;
      if (!is_whole(event)) {
        ++merged.damaged;
        continue;
      }
      text += merged.events++ == 0 ? "\n" : ",\n";
      text += event;
      if (text.size() <= text_limit) continue;
      file.write(text);
      text.clear();
    }
  }
  if (merged.events == 0) {
    throw InputError(
        fmt::format("timeline: {}{} hold{} no event; ranks write theirs when "
                    "KOLO_TIMELINE names a folder, or with kolo train --timeline",
                    files.front().string(),
                    files.size() == 1 ? "" : fmt::format(" and {} more", files.size() - 1),
                    files.size() == 1 ? "s" : ""));
  }
  file.write(text + "\n]\n");
  file.commit();
  return merged;
}

}  // namespace kolo
