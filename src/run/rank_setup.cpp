#include "run/rank_setup.h"

#include <algorithm>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "kolo/base/cpu_limits.h"
#include "kolo/base/error.h"
#include "kolo/comm/mpi.h"
#include "kolo/config/factories.h"
#include "kolo/launch/launch_environment.h"

namespace kolo {

namespace {

Communicator join_ranks(const CommunicationConfig& config, const LaunchEnvironment& environment) {
  const auto mpi = parse_mpi_version(mpi_library_version());
  require_suitable_launcher(environment, mpi, config.backend == CommunicationBackend::mpi);
  auto communicator = mpi_communicator(make_mpi_options(config));
  if (environment.is_launched()) require_all_ranks(environment, mpi, communicator.size());
  return communicator;
}

}  // namespace

Communicator make_communicator(const CommunicationConfig& config,
                               const LaunchEnvironment& environment) {
  const auto backend = config.backend;
  using enum CommunicationBackend;
  if (backend == solo && environment.size > 1) {
    throw InputError(
        fmt::format("communication.backend is solo, but {} has started {} ranks; use auto or mpi",
                    environment.launcher, environment.size));
  }
  // One task of srun needs nobody, and srun may not have been told of MPI.
  const bool is_single_task = environment.started_by == StartedBy::srun && environment.size == 1;
  const bool use_mpi =
      backend == mpi || (backend == automatic && environment.is_launched() && !is_single_task);
  return use_mpi ? join_ranks(config, environment) : Communicator::solo();
}

void set_threads(const DeviceConfig& device, const LaunchEnvironment& environment) {
  const int cores = detect_cpu_limits().cores();
  const int share = cores / environment.local_size.value_or(environment.size);
  if (device.intra_threads > 0)
    at::set_num_threads(device.intra_threads);
  else if (!environment_variable("OMP_NUM_THREADS"))
    at::set_num_threads(std::clamp(environment.cpus.value_or(share), 1, cores));
  // LibTorch takes it once.
  if (static_cast<int>(at::get_num_interop_threads()) != device.inter_threads)
    at::set_num_interop_threads(device.inter_threads);
}

}  // namespace kolo
