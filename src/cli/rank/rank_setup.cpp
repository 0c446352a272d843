#include "cli/rank/rank_setup.h"

#include <algorithm>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "kolo/base/cpu_limits.h"
#include "kolo/base/error.h"
#include "kolo/comm/mpi.h"
#include "kolo/config/factories.h"

namespace kolo {

Communicator make_communicator(const CommunicationConfig& config,
                               const LaunchEnvironment& environment) {
  const auto& backend = config.backend;
  if (backend == "solo" && environment.size > 1) {
    throw InputError(
        fmt::format("communication.backend is solo, but {} started {} ranks; use auto or mpi",
                    environment.launcher, environment.size));
  }
  const bool use_mpi = backend == "mpi" || (backend == "auto" && environment.is_launched());
  return use_mpi ? mpi_communicator(make_mpi_options(config)) : Communicator::solo();
}

void set_threads(const DeviceConfig& device, const LaunchEnvironment& environment) {
  const int share =
      std::max(1, detect_cpu_limits().cores() / environment.local_size.value_or(environment.size));
  if (device.intra_threads > 0)
    at::set_num_threads(device.intra_threads);
  else if (!environment_variable("OMP_NUM_THREADS"))
    at::set_num_threads(share);
  at::set_num_interop_threads(device.inter_threads);
}

}  // namespace kolo
