#include "cli/doctor/checks.h"

#include <filesystem>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/cuda.h>
#include <torch/version.h>
#include <unistd.h>

#include "kolo/comm/device.h"
#include "kolo/data/mnist.h"
#include "kolo/parallel/initialize.h"
#include "kolo/run/launch_ranks.h"
#include "run/launch/launch_advice.h"

namespace kolo {

Finding check_processors(const CpuLimits& limits, const EnvironmentLookup& lookup) {
  Finding finding{.name = "processors"};
  finding.text = fmt::format("{} CPUs on {} cores to use, of {} online", limits.affinity,
                             limits.affinity_cores, limits.online);
  if (limits.quota) finding.text += fmt::format("; limited to {:.3g} CPUs' time", *limits.quota);
  const auto binding = lookup(openmp_binding_before);
  for (const char* const name : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"}) {
    const auto value =
        binding && name == std::string_view("OMP_PROC_BIND") ? binding : lookup(name);
    if (value && !value->empty())
      finding.text += fmt::format("; {}={}, which kolo doesn't follow", name, *value);
  }
  for (const char* const name : {"OMP_THREAD_LIMIT", "OMP_DYNAMIC"})
    if (const auto value = lookup(name)) finding.text += fmt::format("; {}={}", name, *value);
  const auto threads = lookup("OMP_NUM_THREADS");
  finding.text += threads ? fmt::format("; OMP_NUM_THREADS={}", *threads)
                          : std::string("; OMP_NUM_THREADS not set");
  if (limits.quota && *limits.quota < limits.affinity && !threads) {
    finding.warn(fmt::format(
        "one process starts {} threads for the time of {} CPUs; export OMP_NUM_THREADS={} (with -n "
        "kolo does that itself)",
        limits.affinity, limits.cpus(), limits.cpus()));
  }
  return finding;
}

Finding check_host_names(const std::vector<NameLookup>& lookups) {
  Finding finding{.name = "host names"};
  std::vector<std::string> names;
  for (const auto& lookup : lookups) names.push_back(lookup.name);
  finding.text = fmt::format("{} looked up at once", fmt::join(names, " and "));
  const auto slow = describe_slow_names(lookups);
  if (slow.empty()) return finding;
  finding.text = slow;
  finding.warn("programs that ask wait for that, mpirun and ssh among them; " +
               advice_on_names(lookups));
  return finding;
}

Finding check_shared_memory(const std::filesystem::path& folder) {
  Finding finding{.name = "shared memory"};
  const auto room = examine_shared_memory(folder);
  if (!room) {
    finding.text = folder.string() + " is not there";
    finding.warn(
        "mount a tmpfs on it, for Open MPI's own messages; what ranks share in kolo needs none");
    return finding;
  }
  const double total = room->total / (1 << 20), free = room->free / (1 << 20);
  finding.text = fmt::format("{}: {:.0f} MiB, {:.0f} MiB of it free", folder.string(), total, free);
  if (room->free < 2 * shared_memory_per_rank) {
    finding.warn(
        "Open MPI's own messages take 4.25 MiB of it for each rank, what ranks share in kolo none: "
        "docker run --shm-size=1g, or mount -o remount,size=1g /dev/shm");
  }
  return finding;
}

Finding check_gpu() {
  Finding finding{.name = "GPU"};
  const auto [devices, problem] = cuda_devices();
  if (devices > 0)
    finding.text = fmt::format(
        "{}, on which kolo trains, a rank on each (device.kind=auto); between them {}", devices,
        nccl_version().empty()
            ? "each other's memory or the host's, because kolo was built without "
              "NCCL"
            : nccl_version());
  else if (torch::cuda::is_available() || ::access("/dev/nvidiactl", F_OK) == 0)
    finding.text = fmt::format("there is one, but kolo trains on the CPU only: {}", problem);
  else
    finding.text = fmt::format("none; kolo trains on the CPU only{}",
                               cuda_runtime() ? fmt::format(" ({})", problem) : "");
  return finding;
}

Finding check_fashion_mnist(const std::filesystem::path& folder) {
  Finding finding{.name = "data"};
  if (!std::filesystem::exists(folder)) {
    finding.text = "Fashion-MNIST is not installed";
    finding.warn("apt install dataset-fashion-mnist");
    return finding;
  }
  try {
    const auto training = MnistDataset(folder, Split::train).size();
    const auto validation = MnistDataset(folder, Split::validation).size();
    finding.text = fmt::format("Fashion-MNIST: {} training and {} validation images in {}",
                               training, validation, folder.string());
  } catch (const std::exception& error) {
    finding.text = error.what();
    finding.warn("apt install --reinstall dataset-fashion-mnist");
  }
  return finding;
}

Finding check_cosmology(bool is_built) {
  if (is_built) return {.name = "commands", .text = "all are built in"};
  return {.name = "commands",
          .status = FindingStatus::warning,
          .text = "built without kolo data nbody",
          .remedy = "build with FFTW (KOLO_COSMOLOGY=ON)"};
}

namespace {

// "AVX512" etc., the kernels that LibTorch itself uses, out of at::show_config()'s long text.
std::string cpu_capability() {
  const auto text = at::show_config();
  constexpr std::string_view words = "CPU capability usage: ";
  const auto start = text.find(words);
  if (start == std::string::npos) return "unknown";
  const auto end = text.find('\n', start);
  return text.substr(start + words.size(), end - start - words.size());
}

}  // namespace

Finding check_blas(const BlasLibrary& library, const VectorUnits& units,
                   const std::string& core_before) {
  Finding finding{.name = "BLAS"};
  if (library.is_mkl) {
    finding.text = "MKL, which LibTorch brings along";
    return finding;
  }
  if (!library.is_openblas()) {
    finding.text = fmt::format("{}: not OpenBLAS", library.path.empty() ? "none" : library.path);
    finding.warn(
        "if this is the reference BLAS, it is many times slower: apt install libopenblas0-pthread");
    return finding;
  }
  finding.text = fmt::format("{} with kernels for {} ({})",
                             library.version.substr(0, library.version.find(' ', 9)), library.core,
                             library.path);
  if (const auto better = better_core(library.core, units)) {
    finding.warn(fmt::format(
        "it takes this processor for an older one; export OPENBLAS_CORETYPE={}", *better));
  } else if (!core_before.empty()) {
    finding.text += fmt::format("; by itself it chose {}, kolo set OPENBLAS_CORETYPE={}",
                                core_before, library.core);
  }
  return finding;
}

Finding check_libtorch() {
  return {.name = "LibTorch",
          .text = fmt::format("{}, kernels for {}, {} threads", TORCH_VERSION, cpu_capability(),
                              at::get_num_threads())};
}

Finding check_onednn(const std::string& description) {
  if (!description.empty()) return {.name = "oneDNN", .text = description};
  return {.name = "oneDNN",
          .text = "left out (KOLO_ONEDNN); LibTorch's own convolutions take the place of kolo's"};
}

Finding check_kernels(const std::string& onednn, const std::string& in_2d,
                      const std::string& in_3d) {
  const auto path = [](const std::string& implementation) {
    return implementation.empty() ? "LibTorch's own operators"
                                  : fmt::format("oneDNN, {}", implementation);
  };
  Finding finding{
      .name = "kernels",
      .text = fmt::format("convolutions in 2-D by {}; in 3-D by {}", path(in_2d), path(in_3d))};
  if (!onednn.empty() && (in_2d.empty() || in_3d.empty())) {
    finding.warn(
        "oneDNN has nothing vectorised for this processor; results are the same, training is "
        "slower than docs/performance.md says");
  }
  return finding;
}

Finding check_bfloat16(const std::string& onednn, bool multiplies) {
  const auto* const text =
      multiplies ? "this processor multiplies it; training.precision=bf16 computes in it"
      : onednn.empty()
          ? "left to LibTorch's operators"
          : "this processor doesn't multiply it: training.precision=bf16 rounds to it, "
            "and is no faster";
  return {.name = "bfloat16", .text = text};
}

}  // namespace kolo
