#pragma once

#include <istream>
#include <sstream>
#include <string>

namespace kolo::testing {

// Everything that can be read of a stream. The file of a process in /proc may end with an error
// when the process does, where iterators over the stream's buffer would throw.
inline std::string read_all(std::istream& stream) {
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

}  // namespace kolo::testing
