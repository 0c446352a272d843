#include "cli/kolo_program.h"

#include "cli/command_line.h"
#include "kolo/run/run.h"

namespace kolo {

int run_kolo_program(const std::vector<std::string>& words) {
  return run_main([&] {
    CommandLine command_line;
    return command_line.parse(words)();
  });
}

}  // namespace kolo
