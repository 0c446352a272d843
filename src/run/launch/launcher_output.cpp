#include "run/launch/launcher_output.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <optional>
#include <sstream>
#include <utility>

#include "kolo/base/text.h"

namespace kolo {

namespace {

// Word after `words` in the line, "n2" in "... on node n2"; empty: there is none.
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

// Slurm writes "Killed" or "Terminated" instead of a signal's number.
bool names_signal_from_outside(std::string_view line) {
  return std::ranges::any_of(std::array{SIGKILL, SIGTERM, SIGHUP, SIGXCPU}, [&](int signal) {
    return line.ends_with(::strsignal(signal)) ||
           line.find(std::string(": ") + ::strsignal(signal)) != line.npos;
  });
}

// Host "n2" of "srun: error: n2: task 1: Killed"; empty for several, "n[1-2]", which is not one
// node's failure.
std::string host_of_task(std::string_view line) {
  constexpr std::string_view begin = "srun: error: ";
  if (!line.starts_with(begin) || line.find(": task") == line.npos) return {};
  auto host = word_after(line, begin);
  return host.find('[') == host.npos ? host : std::string();
}

constexpr std::size_t longest_box = 30;  // lines; a longer one was no box

bool is_rule(std::string_view line) {
  return line.size() > 40 && line.find_first_not_of("-\r\n") == std::string_view::npos;
}

// Tells whether a rank says why it ends, or the watch why another one does. Warnings, and the
// watch's words while it waits, don't.
bool tells_an_end(std::string_view line) {
  const auto has = [&](std::string_view words) { return line.find(words) != line.npos; };
  if (has("kolo: watch: ")) return has("the job ends");
  return has("kolo: ") && !has("kolo: warning");
}

// Recognizes boxes of Open MPI 4 and 5 that say no more than kolo or a rank does.
bool repeats_a_failure(const std::string& box) {
  const auto words = {"processes exited with non-zero status",
                      "Per user-direction, the job has been aborted",
                      "MPI_ABORT was invoked",
                      "MPI_Abort() was called",
                      "mpirun noticed that process rank",
                      "was unable to reliably start one or more daemons"};
  return std::ranges::any_of(words,
                             [&](const char* each) { return box.find(each) != std::string::npos; });
}

// Recognizes lines on boxes of other ranks: their number, how to see them, and that one could not
// be shown.
bool is_about_boxes(std::string_view line) {
  const auto has = [&](std::string_view words) { return line.find(words) != line.npos; };
  return (has("sent help message help-mpi-api.txt / mpi") && has("more process")) ||
         has("Set MCA parameter \"orte_base_help_aggregate\" to 0") ||
         (has("ORTE_ERROR_LOG") && has("show_help.c"));
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

void LauncherOutput::look_for_hosts(std::string_view line) {
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
        " was unable to start the specified ", " was unable to reliably start one or more daemons"})
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

std::string LauncherOutput::shown(std::string text) {
  if (!text.starts_with("kolo: warning") && text.find_first_not_of(" \r\n") != text.npos)
    was_silent_ = false;
  return text;
}

std::string LauncherOutput::release() {
  return shown(join(std::exchange(box_, {}), ""));
}

std::string LauncherOutput::take_line(std::string line) {
  look_for_hosts(std::string_view(line).substr(0, line.find('\n')));
  knows_why_ = knows_why_ || tells_an_end(line);
  if (box_.empty() && is_about_boxes(line)) return {};
  if (box_.empty() && !is_rule(line)) return shown(std::move(line));
  const bool closes = !box_.empty() && is_rule(line);
  box_.push_back(std::move(line));
  if (closes) {
    const std::string box = join(box_, "");
    const bool names_signal = box.find("exited on signal") != std::string::npos;
    if (!repeats_a_failure(box) || (names_signal && !knows_why_)) return release();
    hidden_ = std::exchange(box_, {});
  }
  return box_.size() > longest_box ? release() : std::string();
}

std::string LauncherOutput::last_words() const {
  std::string words;
  for (const auto& line : hidden_) {
    if (is_rule(line)) continue;
    std::istringstream parts(line);
    for (std::string word; parts >> word;) words += (words.empty() ? "" : " ") + word;
  }
  return words;
}

std::string LauncherOutput::filter(std::string_view text) {
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

std::string LauncherOutput::finish() {
  auto rest = release();
  return rest + shown(std::exchange(partial_line_, {}));
}

}  // namespace kolo
