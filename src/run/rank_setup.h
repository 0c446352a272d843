#pragma once

#include "kolo/comm/communicator.h"
#include "kolo/config/run_config.h"
#include "kolo/launch/launch_environment.h"

// What a process that is one of the ranks does first.
namespace kolo {

// The ranks as MPI sees them. InputError when the configuration wants no communication, but there
// are several; and when a launcher has started processes that MPI does not connect, which then all
// throw.
[[nodiscard]] Communicator make_communicator(const CommunicationConfig& config,
                                             const LaunchEnvironment& environment);

// As many as the launcher keeps CPUs for each rank, or else a rank's share of the cores, unless the
// configuration or OMP_NUM_THREADS (which kolo's own launching sets) say otherwise.
void set_threads(const DeviceConfig& device, const LaunchEnvironment& environment);

}  // namespace kolo
