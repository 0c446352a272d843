#include <fmt/format.h>

#include "comm/job.h"
#include "kolo/base/file.h"
#include "kolo/comm/launcher.h"
#include "kolo/comm/mpi.h"

// Replaces all other sources of this folder where kolo is built without MPI.
namespace kolo {

namespace {

// Refuses several processes, which nothing connects here: each would train alone, and write the
// same files.
void refuse_several(const LaunchEnvironment& environment) {
  if (environment.started_by == StartedBy::kolo) return require_suitable_launcher(environment, {});
  const bool is_alone =
      !environment.is_launched() || (environment.size_is_known && environment.size == 1);
  if (is_alone) return;
  throw WrongLauncher(fmt::format(
      "{} has started {} ({}), but this program's kolo was built without MPI, so nothing connects "
      "them: on one machine start the ranks by kolo's own option -n, without that launcher, or "
      "build kolo with KOLO_MPI=ON; KOLO_LAUNCHER_CHECK=off lets each process go on by itself",
      environment.launcher,
      environment.size_is_known ? fmt::format("{} processes", environment.size)
                                : "several processes",
      environment.variables));
}

}  // namespace

Communicator mpi_communicator(const MpiOptions& given) {
  open_standard_streams();
  const MpiOptions options = with_environment(given);
  if (options.launcher_check) refuse_several(detect_launch_environment());
  if (options.shared_memory == SharedMemory::on) {
    throw Error(
        "comm: shared memory was asked for, but this process is alone; use shared_memory: auto");
  }
  const auto alone = Communicator::solo(options.devices);
  return options.checked ? alone.checked() : alone;
}

std::string mpi_library_version() {
  return {};
}

}  // namespace kolo
