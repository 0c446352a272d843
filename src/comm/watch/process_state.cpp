#include "comm/watch/process_state.h"

#include <fstream>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kolo {

std::int32_t own_process() {
  return ::getpid();
}

std::uint64_t own_process_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

ProcessState state_of_process(std::int32_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  if (!std::getline(file, line)) return ProcessState::gone;
  // The name, in brackets, may hold anything; the state is the letter after it.
  const auto bracket = line.rfind(')');
  if (bracket == std::string::npos || bracket + 2 >= line.size()) return ProcessState::unknown;
  switch (line[bracket + 2]) {
    case 'T':
    case 't':
      return ProcessState::stopped;
    case 'Z':
    case 'X':
      return ProcessState::gone;
    default:
      return ProcessState::alive;
  }
}

}  // namespace kolo
