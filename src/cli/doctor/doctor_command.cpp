#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <ostream>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/version.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/doctor/checks.h"
#include "kolo/base/text.h"
#include "kolo/comm/device.h"
#include "kolo/data/mnist.h"
#include "kolo/kernels/onednn.h"
#include "kolo/parallel/initialize.h"
#include "kolo/run/launch_ranks.h"
#include "kolo/tools/generators.h"
#include "kolo/train/observe/format.h"
#include "run/launch/launch_advice.h"
#include "run/launch/terminal.h"

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
  std::vector<std::string> names;
  for (const auto& lookup : lookups) names.push_back(lookup.name);
  Finding finding{.name = "host names", .text = describe_slow_names(lookups)};
  if (finding.text.empty())
    finding.text = fmt::format("{} looked up at once", join(names, " and "));
  else
    finding.warn("programs that ask wait for that, mpirun and ssh among them; " +
                 advice_on_names(lookups));
  return finding;
}

Finding check_shared_memory() {
  const auto room = examine_shared_memory();
  if (!room)
    return {
        "shared memory", FindingStatus::warning, "/dev/shm is not there",
        "mount a tmpfs on it, for Open MPI's own messages; what ranks share in kolo needs none"};
  const double total = room->total / (1 << 20), free = room->free / (1 << 20);
  Finding finding{.name = "shared memory",
                  .text = fmt::format("/dev/shm: {:.0f} MiB, {:.0f} MiB of it free", total, free)};
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
  if (!std::filesystem::exists(folder))
    return {"data", FindingStatus::warning, "Fashion-MNIST is not installed",
            "apt install dataset-fashion-mnist"};
  try {
    const auto training = MnistDataset(folder, Split::train).size();
    const auto validation = MnistDataset(folder, Split::validation).size();
    return {.name = "data",
            .text = fmt::format("Fashion-MNIST: {} training and {} validation images in {}",
                                training, validation, folder.string())};
  } catch (const std::exception& error) {
    return {"data", FindingStatus::warning, error.what(),
            "apt install --reinstall dataset-fashion-mnist"};
  }
}

Finding check_blas(const BlasLibrary& library, const VectorUnits& units,
                   const std::string& core_before) {
  if (library.is_mkl) return {.name = "BLAS", .text = "MKL, which LibTorch brings along"};
  if (!library.is_openblas())
    return {
        "BLAS", FindingStatus::warning,
        fmt::format("{}: not OpenBLAS", library.path.empty() ? "none" : library.path),
        "if this is the reference BLAS, it is many times slower: apt install libopenblas0-pthread"};
  Finding finding{.name = "BLAS",
                  .text = fmt::format("{} with kernels for {} ({})",
                                      library.version.substr(0, library.version.find(' ', 9)),
                                      library.core, library.path)};
  if (const auto better = better_core(library.core, units)) {
    finding.warn(fmt::format(
        "it takes this processor for an older one; export OPENBLAS_CORETYPE={}", *better));
  } else if (!core_before.empty()) {
    finding.text += fmt::format("; by itself it chose {}, kolo set OPENBLAS_CORETYPE={}",
                                core_before, library.core);
  }
  return finding;
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
        "slower than docs/inside/performance.md says");
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

namespace {

// Text of a CUDA version: "13.1" for 13010.
std::string version_of(int number) {
  return number == 0 ? "none" : fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

Finding check_versions(const GpuFacts& facts) {
  Finding finding{.name = "CUDA"};
  std::vector<std::string> parts = {
      fmt::format("runtime {}", version_of(facts.runtime)),
      fmt::format("LibTorch's {}", version_of(facts.libtorch)),
      facts.cudnn.empty() ? "no cuDNN" : facts.cudnn,
      facts.nccl.empty() ? "kolo is built without NCCL" : facts.nccl,
      facts.driver == 0 ? "no driver"
                        : fmt::format("driver for CUDA up to {}", version_of(facts.driver))};
  finding.text = join(parts, "; ");
  // A driver also runs later CUDA versions with its own major number.
  const int newest = std::max(facts.runtime, facts.libtorch);
  if (facts.driver != 0 && facts.driver / 1000 < newest / 1000) {
    finding.warn(fmt::format(
        "the driver is older than CUDA {}: update it, or build with a LibTorch and nvcc for CUDA "
        "{} or older",
        version_of(newest), version_of(facts.driver)));
  } else if (facts.libtorch != 0 && facts.libtorch / 1000 != facts.runtime / 1000) {
    finding.warn(
        fmt::format("build kolo with the nvcc of LibTorch's CUDA, {}", version_of(facts.libtorch)));
  }
  return finding;
}

Finding check_device(std::size_t index, const GpuFacts::Device& device) {
  Finding finding{.name = fmt::format("GPU {}", index)};
  finding.text = fmt::format("{}, PCI {}, compute capability {}, {} of {} free", device.name,
                             device.place, device.capability, format_bytes(device.free_bytes),
                             format_bytes(device.total_bytes));
  if (!device.has_kernels) {
    finding.text += "; kolo's kernels were not compiled for it";
    finding.fail(fmt::format("build with -DTORCH_CUDA_ARCH_LIST={}", device.capability));
  }
  return finding;
}

Finding check_reach(const GpuFacts& facts) {
  Finding finding{.name = "between GPUs", .text = "each reaches all others' memory"};
  if (facts.out_of_reach.empty()) return finding;
  std::vector<std::string> pairs;
  for (const auto& [from, to] : facts.out_of_reach)
    pairs.push_back(fmt::format("{} to {}", from, to));
  finding.text = fmt::format(
      "no access to each other's memory from {}; there collectives go through the host's memory",
      join(pairs));
  return finding;
}

}  // namespace

std::vector<Finding> check_gpus(const GpuFacts& facts) {
  std::vector<Finding> findings = {check_versions(facts)};
  for (std::size_t index = 0; index < facts.devices.size(); ++index)
    findings.push_back(check_device(index, facts.devices[index]));
  if (facts.devices.size() > 1) findings.push_back(check_reach(facts));
  return findings;
}

FindingStatus worst_status(std::span<const Finding> findings) {
  auto worst = FindingStatus::ok;
  for (const auto& finding : findings) worst = std::max(worst, finding.status);
  return worst;
}

void print_findings(std::ostream& stream, std::span<const Finding> findings, bool unicode,
                    int columns) {
  constexpr const char* symbols[] = {"✓", "!", "✗"};
  constexpr const char* words[] = {"ok     ", "warning", "PROBLEM"};
  std::size_t width = 0;
  for (const auto& finding : findings) width = std::max(width, finding.name.size());
  const std::string indent(width + (unicode ? 4 : 10), ' ');
  for (const auto& finding : findings) {
    const auto* const mark = (unicode ? symbols : words)[static_cast<std::size_t>(finding.status)];
    auto lines = fmt::format("{} {:{}}  {}\n", mark, finding.name, width, finding.text);
    if (!finding.remedy.empty())
      lines += fmt::format("{}{}{}\n", indent, unicode ? "→ " : "-> ", finding.remedy);
    stream << wrap(lines, columns, static_cast<int>(indent.size()));
  }
}

namespace {

// Vector unit of LibTorch's own kernels ("AVX512"), from at::show_config().
std::string cpu_capability() {
  const auto text = at::show_config();
  constexpr std::string_view words = "CPU capability usage: ";
  const auto start = text.find(words);
  if (start == std::string::npos) return "unknown";
  const auto end = text.find('\n', start);
  return text.substr(start + words.size(), end - start - words.size());
}

std::vector<Finding> examine() {
  const auto environment = detect_launch_environment();
  const auto lookups = look_up_own_names(std::chrono::seconds(6));
  const auto core_before = environment_variable("KOLO_BLAS_CORE_BEFORE").value_or("");
  std::vector<Finding> findings = {
      check_mpi_library(),
      check_launcher(environment, lookups),
      check_host_names(lookups),
      check_two_ranks(environment, LauncherChoice::processes),
      check_two_ranks(environment, LauncherChoice::mpi),
      check_processors(detect_cpu_limits(), environment_variable),
      check_shared_memory(),
      check_blas(loaded_blas(), vector_units_of_this_processor(), core_before),
      check_onednn(onednn_description()),
      check_kernels(onednn_description(), convolution_implementation(2),
                    convolution_implementation(3)),
      check_bfloat16(onednn_description(), multiplies_bfloat16()),
      {.name = "LibTorch",
       .text = fmt::format("{}, kernels for {}, {} threads", TORCH_VERSION, cpu_capability(),
                           at::get_num_threads())},
      check_gpu()};
  if (const auto facts = gpu_facts()) {
    for (auto& finding : check_gpus(*facts)) findings.push_back(std::move(finding));
  }
  findings.push_back(check_fashion_mnist(fashion_mnist_folder));
  return findings;
}

int doctor(const bool& is_probe) {
  if (is_probe) return run_probe();
  const auto findings = examine();
  std::cout << "kolo " KOLO_VERSION << (cuda_runtime() ? ", with CUDA\n" : ", CPU only\n");
  print_findings(std::cout, findings, progress_options_from_environment().unicode,
                 terminal_width(STDOUT_FILENO));
  return worst_status(findings) == FindingStatus::problem ? 1 : 0;  // warnings harm nothing
}

}  // namespace

void add_doctor_command(CLI::App& app, Chosen& chosen) {
  const auto [command, is_probe] = add_command(
      app, chosen, "doctor", "Check this machine: MPI, names, BLAS, threads, memory, data", doctor);
  command->add_flag("--probe", *is_probe)->group("");  // check_two_ranks() starts it
  command->footer(
      "Example:\n"
      "  kolo doctor\n\n"
      "Exit status: 0 everything works (there may be warnings), 1 something is a problem.");
}

}  // namespace kolo
