#pragma once

#include "cli/launch/launch_environment.h"
#include "kolo/comm/communicator.h"
#include "kolo/config/run_config.h"

// What a process that is one of the ranks does first.
namespace kolo {

// InputError when the configuration wants no communication, but there are several ranks.
[[nodiscard]] Communicator make_communicator(const CommunicationConfig& config,
                                             const LaunchEnvironment& environment);

// A rank's share of the cores, unless the configuration or OMP_NUM_THREADS (which the launcher
// sets) say otherwise.
void set_threads(const DeviceConfig& device, const LaunchEnvironment& environment);

}  // namespace kolo
