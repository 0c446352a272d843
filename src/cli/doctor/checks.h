#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kolo/base/machine.h"
#include "kolo/run/launch_ranks.h"
#include "run/begin_process.h"
#include "run/launch/launch_advice.h"

namespace kolo {

enum class FindingStatus : std::uint8_t { ok, warning, problem };

// Result of one of doctor's checks.
struct Finding {
  std::string name;  // "BLAS"
  FindingStatus status = FindingStatus::ok;
  std::string text;    // one line
  std::string remedy;  // empty if all is well

  void warn(std::string what_to_do) {
    status = FindingStatus::warning;
    remedy = std::move(what_to_do);
  }
  void fail(std::string what_to_do) {
    status = FindingStatus::problem;
    remedy = std::move(what_to_do);
  }
};

// Prints a line for each finding, and its remedy on the next line.
void print_findings(std::ostream& stream, std::span<const Finding> findings, bool unicode,
                    int width = 0);

[[nodiscard]] FindingStatus worst_status(std::span<const Finding> findings);

[[nodiscard]] Finding check_processors(const CpuLimits& limits, const EnvironmentLookup& lookup);
[[nodiscard]] Finding check_host_names(const std::vector<NameLookup>& lookups);
[[nodiscard]] Finding check_shared_memory();
[[nodiscard]] Finding check_gpu();
[[nodiscard]] Finding check_fashion_mnist(const std::filesystem::path& folder);

// Facts about this process's GPUs and their software; empty if unknown.
struct GpuFacts {
  struct Device {
    std::string name;
    std::string place;  // on the PCI bus: "0000:41:00.0"
    std::string capability;
    bool has_kernels = true;  // kolo's were compiled for it
    std::size_t free_bytes = 0, total_bytes = 0;
  };

  std::vector<Device> devices;
  // Pairs of devices of which the first can't access the second's memory.
  std::vector<std::pair<int, int>> out_of_reach;
  int runtime = 0, driver = 0, libtorch = 0;  // CUDA versions: 13000
  std::string cudnn, nccl;
};

// Asks CUDA and LibTorch; nothing if kolo is built without CUDA.
[[nodiscard]] std::optional<GpuFacts> gpu_facts();

// Findings from the facts: versions, each GPU, reach among several.
[[nodiscard]] std::vector<Finding> check_gpus(const GpuFacts& facts);

// `core_before`: the core that OpenBLAS chose before kolo set another; empty if kolo set none.
[[nodiscard]] Finding check_blas(const BlasLibrary& library, const VectorUnits& units,
                                 const std::string& core_before);
// `description`: empty if kolo is built without oneDNN.
[[nodiscard]] Finding check_onednn(const std::string& description);
// Kernels of convolutions. `in_2d`, `in_3d`: oneDNN's implementations for 2 and 3 dimensions; empty
// if LibTorch's own operators compute.
[[nodiscard]] Finding check_kernels(const std::string& onednn, const std::string& in_2d,
                                    const std::string& in_3d);
// `multiplies`: the processor has bfloat16 products.
[[nodiscard]] Finding check_bfloat16(const std::string& onednn, bool multiplies);

// The checks below start programs and wait for them, a few seconds at most.
[[nodiscard]] Finding check_mpi_library();
// Time that MPI's launcher takes for two programs that do nothing.
struct EmptyJob {
  std::string command;
  std::optional<double> seconds = {};  // nothing if it failed
  std::string complaint = {};          // reason of the failure
};

// Names likely reasons if the job took long.
[[nodiscard]] Finding check_empty_job(const std::string& launcher, const EmptyJob& job,
                                      const LaunchConditions& conditions,
                                      const std::vector<std::string>& interfaces);
// One machine needs no launcher, so a missing one is no warning.
[[nodiscard]] Finding check_launcher(const LaunchEnvironment& environment,
                                     const std::vector<NameLookup>& lookups);
// Starts two ranks by kolo itself, or by MPI's launcher.
[[nodiscard]] Finding check_two_ranks(const LaunchEnvironment& environment, LauncherChoice choice);

// Body of the hidden `kolo doctor --probe`, which the checks above start as ranks: does an
// all-reduce; rank 0 prints a line of JSON about it. Returns the exit status.
[[nodiscard]] int run_probe();

}  // namespace kolo
