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

// Devices and threads of a run's ranks.
namespace kolo {

// LibTorch of this process.
struct LibTorchFacts {
  std::string version;  // "2.1.0"
  int threads = 1;      // of an operation
  bool has_mkl = false;
};
[[nodiscard]] LibTorchFacts libtorch_facts();

// Sets LibTorch's threads: as the configuration or OMP_NUM_THREADS (which kolo's launcher sets)
// say, else as many as the launcher keeps CPUs for a rank, else a rank's share of the cores; at
// most OMP_THREAD_LIMIT.
void set_threads(const DeviceConfig& device, const LaunchEnvironment& environment);

// InputError where a GPU is asked for, or needed for the data, and kolo can use none.
void require_device(const RunConfig& config);
// Tells whether a GPU is asked for, or usable where none is excluded.
[[nodiscard]] bool wants_gpu(const DeviceConfig& device);

// "4 nodes of 64 CPUs (AMD EPYC 9654), 4 GPUs (NVIDIA H200)": this rank's node stands for all.
[[nodiscard]] std::string describe_machine(const DeviceConfig& device, int nodes);

// Takes this rank's device, and sets LibTorch's switches as configured. Collective.
[[nodiscard]] c10::Device start_device(const DeviceConfig& device,
                                       const Communicator& communicator);

// Moves the network to the device, before a trainer is made of it.
void move_network(torch::nn::Module& network, const RunConfig& config, const c10::Device& device);

}  // namespace kolo
