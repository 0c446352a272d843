#include "launch/launcher_noise.h"

#include <utility>

#include "kolo/base/suggest.h"

namespace kolo {

namespace {

constexpr std::size_t longest_box = 30;  // lines; a longer one was no box

bool is_rule(std::string_view line) {
  return line.size() > 40 && line.find_first_not_of("-\r\n") == std::string_view::npos;
}

// Open MPI 4 and 5; the first also says it once more in a box of its own.
bool repeats_a_failure(const std::vector<std::string>& box) {
  const std::string text = join(box, "");
  for (const char* const words :
       {"processes exited with non-zero status", "Per user-direction, the job has been aborted",
        "MPI_ABORT was invoked", "MPI_Abort() was called"}) {
    if (text.find(words) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

std::string LauncherNoise::release() {
  return join(std::exchange(box_, {}), "");
}

std::string LauncherNoise::take_line(std::string line) {
  if (box_.empty() && !is_rule(line)) return line;
  const bool closes = !box_.empty() && is_rule(line);
  box_.push_back(std::move(line));
  if (closes) {
    if (!repeats_a_failure(box_)) return release();
    box_.clear();
  }
  return box_.size() > longest_box ? release() : std::string();
}

std::string LauncherNoise::filter(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const auto newline = text.find('\n');
    partial_line_ += text.substr(0, newline == text.npos ? newline : newline + 1);
    if (newline == text.npos) break;
    text.remove_prefix(newline + 1);
    shown += take_line(std::exchange(partial_line_, {}));
  }
  return shown;
}

std::string LauncherNoise::finish() {
  return release() + std::exchange(partial_line_, {});
}

}  // namespace kolo
