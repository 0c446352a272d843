#pragma once

#include <filesystem>
#include <fstream>
#include <istream>
#include <sstream>
#include <string>
#include <vector>

namespace kolo::testing {

// Everything that can be read of a stream. The file of a process in /proc may end with an error
// when the process does, where iterators over the stream's buffer would throw.
inline std::string read_all(std::istream& stream) {
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// The same of a file; empty where there is none.
inline std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return read_all(file);
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace kolo::testing
