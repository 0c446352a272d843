#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace kolo {

// Puts a rank's number in front of each of its lines: "[3] text".
class LineTagger {
 public:
  explicit LineTagger(int rank) : tag_(fmt::format("[{}] ", rank)) {}

  // Takes the next piece of text and returns its complete lines, tagged. Holds the rest back, up to
  // a limit, until its line is complete.
  [[nodiscard]] std::string add(std::string_view text);
  // Ends the text and returns the rest.
  [[nodiscard]] std::string finish();

 private:
  std::string tag_, line_;
};

// Program of one rank of `kolo run`.
struct RankProgram {
  std::vector<std::string> command;
  int rank = 0;
  bool tag = true;                             // lines on stdout and stderr
  std::optional<std::filesystem::path> log{};  // instead of both
};

// Runs it and returns its exit status (128 + the signal that ended it). Passes SIGUSR1 on, and
// SIGUSR2 as SIGTERM. At SIGTERM, and when the launcher goes away, ends the program and all that it
// has started, after half a second by force.
[[nodiscard]] int run_rank_program(const RankProgram& program);

}  // namespace kolo
