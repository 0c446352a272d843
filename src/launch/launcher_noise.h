#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kolo {

// Takes out of the standard error of mpirun its boxes that only repeat that a rank has failed: the
// rank has said so itself. A box lies between two lines of dashes; other boxes and lines stay.
class LauncherNoise {
 public:
  // The next piece of text; returns what is to be shown of it. A line is held back until it is
  // complete, a box until it is closed.
  [[nodiscard]] std::string filter(std::string_view text);

  // The end of the text: what is still held back.
  [[nodiscard]] std::string finish();

 private:
  [[nodiscard]] std::string take_line(std::string line);
  [[nodiscard]] std::string release();

  std::string partial_line_;
  std::vector<std::string> box_;  // from its opening line of dashes on; empty outside
};

}  // namespace kolo
