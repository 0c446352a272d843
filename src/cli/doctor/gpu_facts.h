#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/doctor/checks.h"

namespace kolo {

// What this process finds out about its GPUs and what runs them. Empty: unknown.
struct GpuFacts {
  struct Device {
    std::string name;
    std::string place;  // on the PCI bus: "0000:41:00.0"
    std::string capability;
    bool has_kernels = true;  // kolo's were compiled for it
    std::size_t free_bytes = 0, total_bytes = 0;
    std::optional<double> limit_watts;
  };

  std::vector<Device> devices;
  // Pairs of which the first does not reach the second's memory, in the order of devices.
  std::vector<std::pair<int, int>> out_of_reach;
  int runtime = 0, driver = 0, libtorch = 0;  // versions of CUDA, as CUDA numbers them: 13000
  std::string driver_version, cudnn, nccl;
  std::string nvml_problem;  // empty: it is there
};

// Asks CUDA, LibTorch and NVML. None where kolo is built without CUDA.
[[nodiscard]] std::optional<GpuFacts> gpu_facts();

// What the facts mean: versions, each GPU, reach among several, NVML.
[[nodiscard]] std::vector<Finding> check_gpus(const GpuFacts& facts);

}  // namespace kolo
