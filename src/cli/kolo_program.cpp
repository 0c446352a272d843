#include "cli/kolo_program.h"

#include <exception>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/rank/rank_guard.h"
#include "kolo/base/error.h"
#include "kolo/launch/launch_environment.h"
#include "launch/terminal.h"

namespace kolo {

namespace {

// What all ranks would say alike is said by the lowest, after which launchers end the others.
void complain_as_rank(const std::string& message) {
  const int rank = detect_launch_environment().rank;
  let_lower_ranks_speak(rank);
  complain(fmt::format("{}{}", rank == 0 ? "" : describe_rank(rank) + ": ", message));
}

}  // namespace

int run_kolo_program(const std::vector<std::string>& words) {
  try {
    CommandLine command_line;
    return command_line.parse(words)();
  } catch (const InputError& error) {
    complain_as_rank(error.what());
    return exit_wrong_input;
  } catch (const std::exception& error) {
    complain_as_rank(message_of(error));
    return exit_failed;
  }
}

}  // namespace kolo
