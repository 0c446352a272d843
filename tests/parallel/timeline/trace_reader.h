#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace kolo::testing {

// One line of a trace file as TraceWriter writes it.
struct TraceLine {
  std::string text, name, phase;
  int process = 0, row = 0;
  double start = 0, duration = 0;  // microseconds

  [[nodiscard]] double end() const { return start + duration; }
  [[nodiscard]] bool contains(const TraceLine& other) const {
    constexpr double rounding = .002;
    return start <= other.start + rounding && other.end() <= end() + rounding;
  }
};

inline std::string field(const std::string& text, const std::string& name) {
  const auto at = text.find('"' + name + "\":");
  if (at == text.npos) return {};
  auto begin = at + name.size() + 3;
  const bool is_string = text[begin] == '"';
  if (is_string) ++begin;
  return text.substr(begin, text.find_first_of(is_string ? "\"" : ",}", begin) - begin);
}

inline std::vector<TraceLine> read_trace(const std::filesystem::path& path) {
  std::vector<TraceLine> lines;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    if (text.empty() || text[0] != '{') continue;
    lines.push_back({text, field(text, "name"), field(text, "ph"),
                     std::atoi(field(text, "pid").c_str()), std::atoi(field(text, "tid").c_str()),
                     std::atof(field(text, "ts").c_str()), std::atof(field(text, "dur").c_str())});
  }
  return lines;
}

inline std::vector<TraceLine> named(const std::vector<TraceLine>& lines, const std::string& name,
                                    const std::string& phase = "X") {
  std::vector<TraceLine> found;
  for (const auto& line : lines) {
    if (line.name == name && line.phase == phase) found.push_back(line);
  }
  return found;
}

}  // namespace kolo::testing
