#pragma once

#include <string>
#include <vector>

namespace kolo {

// What the program does with the words of its command line (without its name): runs the command
// that they ask for and says on stderr what went wrong. Returns the exit status.
[[nodiscard]] int run_kolo_program(const std::vector<std::string>& words);

}  // namespace kolo
