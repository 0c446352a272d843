#pragma once

#include <string>

#include "kolo/comm/communicator.h"
#include "kolo/config/run_config.h"
#include "kolo/run/launch_ranks.h"

namespace c10 {
struct Device;
}
namespace torch::nn {
class Module;
}

// Where a run's ranks compute.
namespace kolo {

// LibTorch as this process has it.
struct LibTorchFacts {
  std::string version;   // "2.1.0"
  int threads = 1;       // that an operation is computed by
  bool has_mkl = false;  // MKL is inside
};
[[nodiscard]] LibTorchFacts libtorch_facts();

// LibTorch's: as many as the launcher keeps CPUs for each rank, or else a rank's share of the
// cores, unless the configuration or OMP_NUM_THREADS (which kolo's own launching sets) say
// otherwise; at most as many as OMP_THREAD_LIMIT allows.
void set_threads(const DeviceConfig& device, const LaunchEnvironment& environment);

// InputError where a GPU is asked for, or needed for the data, and there is none that kolo can use.
// Before anything starts.
void require_device(const RunConfig& config);
// Whether there is reason to take one.
[[nodiscard]] bool wants_gpu(const DeviceConfig& device);

// This rank's device, with LibTorch's switches as configured. Collective.
[[nodiscard]] c10::Device start_device(const DeviceConfig& device,
                                       const Communicator& communicator);

// Takes the network there, before a trainer is made of it.
void move_network(torch::nn::Module& network, const DeviceConfig& config,
                  const c10::Device& device);

}  // namespace kolo
