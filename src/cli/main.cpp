#include <exception>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/rank/blas.h"
#include "cli/rank/rank_guard.h"
#include "kolo/base/error.h"
#include "kolo/launch/launch_environment.h"
#include "launch/terminal.h"

namespace {

using namespace kolo;

// What all ranks would say alike is said by the lowest, after which launchers end the others.
void complain_as_rank(const std::string& message) {
  const int rank = detect_launch_environment().rank;
  let_lower_ranks_speak(rank);
  complain(fmt::format("{}{}", rank == 0 ? "" : describe_rank(rank) + ": ", message));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    relaunch_on_right_core(argv);
    CommandLine command_line;
    return command_line.parse({argv + 1, argv + argc})();
  } catch (const InputError& error) {
    complain_as_rank(error.what());
    return exit_wrong_input;
  } catch (const std::exception& error) {
    complain_as_rank(message_of(error));
    return exit_failed;
  }
}
