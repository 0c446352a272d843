#include "run/launch/launcher_messages.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <optional>

#include "kolo/base/text.h"

namespace kolo {

namespace {

// The word after `words` in the line: "... on node n2" after " on node ". Empty: there is none.
std::string word_after(std::string_view line, std::string_view words) {
  const auto begin = line.find(words);
  if (begin == line.npos) return {};
  line.remove_prefix(begin + words.size());
  return std::string(line.substr(0, line.find_first_of(" \t\r:,;)")));
}

std::optional<int> number_after(std::string_view line, std::string_view words) {
  return parse_number<int>(word_after(line, words));
}

bool is_from_outside(int signal) {
  return signal > 0 && signal < NSIG && !is_crash(signal);
}

// Slurm says "Killed" or "Terminated" where others give a number.
bool names_signal_from_outside(std::string_view line) {
  return std::ranges::any_of(std::array{SIGKILL, SIGTERM, SIGHUP, SIGXCPU}, [&](int signal) {
    return line.ends_with(::strsignal(signal)) ||
           line.find(std::string(": ") + ::strsignal(signal)) != line.npos;
  });
}

// "n2" of "srun: error: n2: task 1: Killed". Empty for several nodes at once, "n[1-2]": that is not
// one node's failure.
std::string host_of_task(std::string_view line) {
  constexpr std::string_view begin = "srun: error: ";
  if (!line.starts_with(begin) || line.find(": task") == line.npos) return {};
  auto host = word_after(line, begin);
  return host.find('[') == host.npos ? host : std::string();
}

}  // namespace

bool is_crash(int signal) {
  switch (signal) {
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGABRT:
      return true;
    default:
      return false;
  }
}

void LauncherMessages::read(std::string_view text) {
  constexpr std::size_t longest_line = 4096;
  for (const char letter : text) {
    if (letter != '\n') {
      if (partial_line_.size() < longest_line) partial_line_ += letter;
      continue;
    }
    read_line(partial_line_);
    partial_line_.clear();
  }
}

void LauncherMessages::read_line(std::string_view line) {
  const auto note_killed = [&](const std::string& host) {
    if (hosts_.rank_killed.empty()) hosts_.rank_killed = host;
  };
  // Open MPI 4 and 5: "  Remote daemon: [[31281,0],1] on node n2"
  if (line.find("Remote daemon:") != line.npos) {
    if (const auto host = word_after(line, " on node "); !host.empty()) hosts_.lost.insert(host);
  }
  // Open MPI 4 and 5: "mpirun was unable to launch the specified application as it could not ..."
  for (const char* const words :
       {" was unable to launch the specified ", " was unable to find the specified ",
        " was unable to start the specified "})
    hosts_.has_not_started |= line.find(words) != line.npos;
  // "mpirun noticed that process rank 1 with PID 0 on node n2 exited on signal 9 (Killed)."
  if (line.find("noticed that process rank") != line.npos) {
    if (is_from_outside(number_after(line, "exited on signal ").value_or(0)))
      note_killed(word_after(line, " on node "));
  }
  // MPICH: "=   PID 1234 RUNNING AT n2", and later "... THE EXIT STRING: Killed (signal 9)"
  if (const auto host = word_after(line, " RUNNING AT "); !host.empty()) running_at_ = host;
  if (line.find(" EXIT STRING: ") != line.npos && !running_at_.empty()) {
    if (is_from_outside(number_after(line, "(signal ").value_or(0))) note_killed(running_at_);
    running_at_.clear();
  }
  // Slurm: "srun: error: Node failure on n2"
  if (const auto host = word_after(line, "Node failure on "); !host.empty())
    hosts_.lost.insert(host);
  if (const auto host = host_of_task(line); !host.empty() && names_signal_from_outside(line))
    note_killed(host);
  // PALS: "n2: rank 3 died from signal 9"
  if (const auto signal = number_after(line, "died from signal "); signal && *signal != SIGTERM) {
    if (is_from_outside(*signal)) note_killed(std::string(line.substr(0, line.find(':'))));
  }
}

}  // namespace kolo
