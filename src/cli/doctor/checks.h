#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
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
  std::string name;  // what was looked at: "BLAS"
  FindingStatus status = FindingStatus::ok;
  std::string text;    // what is there, in one line
  std::string remedy;  // what to do about it; empty when all is well

  void warn(std::string what_to_do) {
    status = FindingStatus::warning;
    remedy = std::move(what_to_do);
  }
  void fail(std::string what_to_do) {
    status = FindingStatus::problem;
    remedy = std::move(what_to_do);
  }
};

// One line a finding, its remedy on the next.
void print_findings(std::ostream& stream, std::span<const Finding> findings, bool unicode,
                    int width = 0);

[[nodiscard]] FindingStatus worst_status(std::span<const Finding> findings);

// The machine.
[[nodiscard]] Finding check_processors(const CpuLimits& limits, const EnvironmentLookup& lookup);
[[nodiscard]] Finding check_host_names(const std::vector<NameLookup>& lookups);
[[nodiscard]] Finding check_shared_memory(const std::filesystem::path& folder = "/dev/shm");
[[nodiscard]] Finding check_gpu();
[[nodiscard]] Finding check_fashion_mnist(const std::filesystem::path& folder);
// Tells whether this kolo was built with kolo data nbody.
[[nodiscard]] Finding check_cosmology(bool is_built);

// Facts about this process's GPUs and the software that runs them. Empty: unknown.
struct GpuFacts {
  struct Device {
    std::string name;
    std::string place;  // on the PCI bus: "0000:41:00.0"
    std::string capability;
    bool has_kernels = true;  // kolo's were compiled for it
    std::size_t free_bytes = 0, total_bytes = 0;
  };

  std::vector<Device> devices;
  // Pairs of which the first does not reach the second's memory, in the order of devices.
  std::vector<std::pair<int, int>> out_of_reach;
  int runtime = 0, driver = 0, libtorch = 0;  // versions of CUDA, as CUDA numbers them: 13000
  std::string cudnn, nccl;
};

// Asks CUDA and LibTorch. None where kolo is built without CUDA.
[[nodiscard]] std::optional<GpuFacts> gpu_facts();

// Findings from the facts: versions, each GPU, reach among several.
[[nodiscard]] std::vector<Finding> check_gpus(const GpuFacts& facts);

// Libraries. `core_before`: what OpenBLAS chose before this program told it better; empty:
// it was not told.
[[nodiscard]] Finding check_blas(const BlasLibrary& library, const VectorUnits& units,
                                 const std::string& core_before);
[[nodiscard]] Finding check_libtorch();
// Empty where kolo is built without a oneDNN of its own, which is as it was wanted.
[[nodiscard]] Finding check_onednn(const std::string& description);
// Which kernels networks compute by: the names of oneDNN's implementations for 2 and 3 dimensions,
// empty where there is none and LibTorch's own operators compute.
[[nodiscard]] Finding check_kernels(const std::string& onednn, const std::string& in_2d,
                                    const std::string& in_3d);
// `onednn` as above; whether the processor has products of bfloat16.
[[nodiscard]] Finding check_bfloat16(const std::string& onednn, bool multiplies);

// MPI. These start programs and wait for them, some seconds at most.
[[nodiscard]] Finding check_mpi_library();
// How long MPI's launcher takes to start two programs that do nothing.
struct EmptyJob {
  std::string command;
  std::optional<double> seconds = {};  // nothing: it has not ended with status 0 in time
  std::string complaint = {};          // what went wrong then
};

// Names what may have made it slow where it took long.
[[nodiscard]] Finding check_empty_job(const std::string& launcher, const EmptyJob& job,
                                      const LaunchConditions& conditions,
                                      const std::vector<std::string>& interfaces);
// None is needed on one machine, so that its absence is no warning.
[[nodiscard]] Finding check_launcher(const LaunchEnvironment& environment,
                                     const std::vector<NameLookup>& lookups);
// Ranks that kolo starts itself, or that MPI's launcher starts.
[[nodiscard]] Finding check_two_ranks(const LaunchEnvironment& environment, LauncherChoice choice);

// What a rank started by the checks above does: an all-reduce, and rank 0 prints a line of JSON
// about it. Returns the exit status.
[[nodiscard]] int run_probe();
// Starts two of these as processes of this machine. Returns the exit status.
[[nodiscard]] int run_probe_of_processes();

}  // namespace kolo
