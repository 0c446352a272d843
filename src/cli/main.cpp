#include <array>

#include <sys/syscall.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "run/begin_process.h"

namespace {

// CPUs that this process was started with. They are read before any library begins, because OpenMP
// may bind the main thread as soon as it is loaded; only static storage exists then.
std::array<cpu_set_t, 64> started_with;
bool is_known = false;

__attribute__((no_sanitize("address", "thread", "undefined"))) void note_cpus(int, char**, char**) {
  is_known = ::syscall(SYS_sched_getaffinity, 0, sizeof(started_with), started_with.data()) > 0;
}

__attribute__((section(".preinit_array"), used)) void (*const note_cpus_first)(int, char**,
                                                                               char**) = note_cpus;

}  // namespace

int main(int argc, char** argv) {
  kolo::begin_process(argv, std::span(started_with).first(is_known ? started_with.size() : 0));
  kolo::end_process(kolo::run_program({argv + 1, argv + argc}));
}
