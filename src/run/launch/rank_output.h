#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kolo {

// Puts a rank's number in front of each of its lines: "[3] text".
class LineTagger {
 public:
  explicit LineTagger(int rank);

  // The next piece of text; returns its complete lines, tagged. The rest is held back, up to a
  // limit, until its line is complete.
  [[nodiscard]] std::string add(std::string_view text);
  // The end of the text: what is still held back.
  [[nodiscard]] std::string finish();

 private:
  std::string tag_, line_;
};

// What `kolo run` does as the parent of one rank's program.
struct RankProgram {
  std::vector<std::string> command;
  int rank = 0;
  bool tag = true;                             // lines on stdout and stderr
  std::optional<std::filesystem::path> log{};  // instead of both
};

// Runs it and returns its exit status (128 + the signal that ended it). SIGUSR2 becomes SIGTERM to
// the program, SIGUSR1 is passed on; at SIGTERM, and when the launcher goes away, the program is
// ended, after half a second by force, and all that it has started with it.
[[nodiscard]] int run_rank_program(const RankProgram& program);

}  // namespace kolo
