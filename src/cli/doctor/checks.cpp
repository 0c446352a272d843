#include "cli/doctor/checks.h"

#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <sys/statvfs.h>
#include <torch/cuda.h>
#include <torch/version.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "kolo/base/clock.h"
#include "kolo/comm/device.h"
#include "kolo/comm/mpi.h"
#include "kolo/data/mnist.h"
#include "kolo/parallel/initialize.h"
#include "kolo/parallel/tensor_collectives.h"
#include "kolo/run/launch_environment.h"
#include "kolo/run/launch_ranks.h"
#include "run/launch/supervise.h"

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
    finding.status = FindingStatus::warning;
    finding.remedy = fmt::format(
        "one process starts {} threads for the time of {} CPUs; export OMP_NUM_THREADS={} (with -n "
        "kolo does that itself)",
        limits.affinity, limits.cpus(), limits.cpus());
  }
  return finding;
}

double seconds_to_look_up(const std::string& name) {
  const Stopwatch stopwatch;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, nullptr, &found) == 0) ::freeaddrinfo(found);
  return stopwatch.seconds();
}

Finding check_host_names(const std::vector<std::string>& names,
                         const std::function<double(const std::string& name)>& seconds_for) {
  constexpr double slow = 1;
  Finding finding{.name = "host names"};
  std::vector<std::string> slow_ones, texts;
  for (const auto& name : names) {
    const double seconds = seconds_for(name);
    if (seconds < slow) continue;
    slow_ones.push_back(name);
    texts.push_back(fmt::format("{} took {:.1f} s", name, seconds));
  }
  finding.text = fmt::format("{} looked up at once", fmt::join(names, " and "));
  if (slow_ones.empty()) return finding;
  finding.status = FindingStatus::warning;
  finding.text = fmt::format("looking up {}", fmt::join(texts, ", "));
  finding.remedy = fmt::format(
      "mpirun waits for that whenever it starts ranks; add a line to /etc/hosts: 127.0.0.1 {}",
      fmt::join(slow_ones, " "));
  return finding;
}

Finding check_shared_memory(const std::filesystem::path& folder) {
  Finding finding{.name = "shared memory"};
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0) {
    finding.status = FindingStatus::problem;
    finding.text = folder.string() + " is not there";
    finding.remedy = "mount a tmpfs on it; ranks of a node share their gradients there";
    return finding;
  }
  const double unit = static_cast<double>(info.f_frsize);
  const double total = unit * static_cast<double>(info.f_blocks) / (1 << 20);
  const double free = unit * static_cast<double>(info.f_bavail) / (1 << 20);
  finding.text = fmt::format("{}: {:.0f} MiB, {:.0f} MiB of it free", folder.string(), total, free);
  // Containers get 64 MiB by default.
  if (free < 256) {
    finding.status = FindingStatus::warning;
    finding.remedy =
        "networks of more than a few million parameters need more: docker run --shm-size=1g, or "
        "mount -o remount,size=50% /dev/shm";
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
    finding.status = FindingStatus::warning;
    finding.text = "Fashion-MNIST is not installed";
    finding.remedy = "apt install dataset-fashion-mnist";
    return finding;
  }
  try {
    const auto training = MnistDataset(folder, Split::train).size();
    const auto validation = MnistDataset(folder, Split::validation).size();
    finding.text = fmt::format("Fashion-MNIST: {} training and {} validation images in {}",
                               training, validation, folder.string());
  } catch (const std::exception& error) {
    finding.status = FindingStatus::warning;
    finding.text = error.what();
    finding.remedy = "apt install --reinstall dataset-fashion-mnist";
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
    finding.status = FindingStatus::warning;
    finding.text = fmt::format("{}: not OpenBLAS", library.path.empty() ? "none" : library.path);
    finding.remedy =
        "if this is the reference BLAS, it is many times slower: apt install libopenblas0-pthread";
    return finding;
  }
  finding.text = fmt::format("{} with kernels for {} ({})",
                             library.version.substr(0, library.version.find(' ', 9)), library.core,
                             library.path);
  if (const auto better = better_core(library.core, units)) {
    finding.status = FindingStatus::warning;
    finding.remedy = fmt::format(
        "it takes this processor for an older one; export OPENBLAS_CORETYPE={}", *better);
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
    finding.status = FindingStatus::warning;
    finding.remedy =
        "oneDNN has nothing vectorised for this processor; results are the same, training is "
        "slower than docs/performance.md says";
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

using nlohmann::json;

constexpr std::chrono::seconds probe_deadline{30};

std::vector<std::string> probe_command() {
  return {std::filesystem::read_symlink("/proc/self/exe"), "doctor", "--probe"};
}

// The line of JSON that rank 0 printed; nothing when the probe failed.
std::optional<json> answer_of(const ProbeResult& result) {
  if (result.status != 0) return std::nullopt;
  const auto start = result.output.find('{');
  if (start == std::string::npos) return std::nullopt;
  auto answer = json::parse(result.output.substr(start), nullptr, false);
  if (answer.is_discarded()) return std::nullopt;
  return answer;
}

// What went wrong, in one line: the first that isn't decoration.
std::string complaint_of(const ProbeResult& result) {
  if (!result.status) return fmt::format("no answer within {} s", probe_deadline.count());
  std::istringstream lines(result.errors + result.output);
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of("- \t\r") != std::string::npos) return line;
  }
  return fmt::format("exit status {}", *result.status);
}

// How an all-reduce of GPUs' memory has gone from rank to rank, as in a training; empty where there
// are none. Error when it gives no sum. Collective.
std::string try_devices(const Communicator& communicator) {
  const auto device = take_device(communicator, /*may_share=*/true);
  if (device.is_cpu()) return {};
  const auto values =
      torch::full({1 << 16}, communicator.rank() + 1., torch::TensorOptions(device));
  all_reduce(communicator, values, ReduceOp::sum);
  const double ranks = communicator.size();
  const double sum = values.sum().item<double>(),
               expected = values.numel() * ranks * (ranks + 1) / 2;
  if (sum != expected)
    throw Error(fmt::format("doctor: the sum of the ranks' GPUs is {}, not {}", sum, expected));
  return communicator.capabilities().device_transport;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find_first_of("\n,"));
}

bool is_mpi_left_out() {
  return mpi_library_version().empty();
}

}  // namespace

int run_probe() {
  const auto communicator = mpi_communicator();
  const auto sum = all_reduce_value<std::int64_t>(communicator, communicator.rank() + 1);
  const auto on_devices = try_devices(communicator);
  if (communicator.rank() != 0) return 0;
  const auto capabilities = communicator.capabilities();
  std::cout << json{{"ranks", communicator.size()},
                    {"sum", sum},
                    {"thread_level", capabilities.thread_level},
                    {"transport", capabilities.transport},
                    {"device_transport", on_devices}}
                   .dump()
            << std::endl;
  return 0;
}

Finding check_mpi_library() {
  Finding finding{.name = "MPI", .text = first_line(mpi_library_version())};
  if (is_mpi_left_out()) {
    finding.text = "left out (KOLO_MPI); -n starts ranks on this machine alone";
    return finding;
  }
  const auto result = probe({.argv = probe_command()}, probe_deadline);
  const auto answer = answer_of(result);
  if (!answer) {
    finding.status = FindingStatus::problem;
    finding.text += ", but it does not start: " + complaint_of(result);
    finding.remedy = "check the installation: mpirun -n 1 hostname";
    return finding;
  }
  const auto level = answer->value("thread_level", "");
  finding.text += fmt::format(", thread level '{}'", level);
  if (level != "multiple") {
    finding.status = FindingStatus::warning;
    finding.remedy =
        "communication can't overlap with backward below 'multiple'; use an MPI built with "
        "threads";
  }
  return finding;
}

Finding check_launcher(const LaunchEnvironment& environment) {
  Finding finding{.name = "launcher"};
  if (is_mpi_left_out()) {
    finding.text = "none but kolo itself, on this machine";
    return finding;
  }
  try {
    finding.text = examine_machine(environment, LauncherChoice::mpi).program;
  } catch (const std::exception& error) {
    finding.status = FindingStatus::warning;
    finding.text = "none: only one rank can be started";
    finding.remedy = error.what();
  }
  return finding;
}

Finding check_two_ranks(const LaunchEnvironment& environment) {
  Finding finding{.name = "two ranks"};
  if (is_mpi_left_out()) {
    finding.text = "not tried without MPI";
    return finding;
  }
  if (environment.is_launched()) {
    finding.text =
        fmt::format("not tried, because {} has started this program", environment.launcher);
    return finding;
  }
  MachineFacts machine;
  try {
    machine = examine_machine(environment, LauncherChoice::mpi);
  } catch (const std::exception&) {
    finding.status = FindingStatus::warning;
    finding.text = "not tried without a launcher";
    return finding;
  }
  RankCommand command;
  try {
    command =
        rank_command({.ranks = 2, .oversubscribe = true, .command = probe_command()}, machine);
  } catch (const InputError& error) {
    finding.status = FindingStatus::problem;
    finding.text = "they can't be started";
    finding.remedy = error.what();
    return finding;
  }
  const auto result = probe(command, probe_deadline);
  const auto answer = answer_of(result);
  if (!answer || answer->value("ranks", 0) != 2 || answer->value("sum", 0) != 3) {
    finding.status = FindingStatus::problem;
    finding.text = answer
                       ? fmt::format("they started as {} rank(s) each", answer->value("ranks", 0))
                       : complaint_of(result);
    finding.remedy = "try it by hand: " + fmt::format("{}", fmt::join(command.argv, " "));
    return finding;
  }
  finding.text = fmt::format("started, all-reduce done by {}", answer->value("transport", ""));
  if (const auto transport = answer->value("device_transport", ""); !transport.empty())
    finding.text += fmt::format("; of GPUs' memory by {}", transport);
  return finding;
}

}  // namespace kolo
