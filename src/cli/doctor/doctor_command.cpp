#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <ostream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/doctor/checks.h"
#include "kolo/comm/device.h"
#include "kolo/data/mnist.h"
#include "kolo/kernels/onednn.h"
#include "kolo/tools/generators.h"
#include "kolo/train/observe/format.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace {

// 13010: "13.1"
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
  finding.text = fmt::format("{}", fmt::join(parts, "; "));
  // A driver runs later CUDA of its own major version too.
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
      fmt::join(pairs, ", "));
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

namespace {

const char* mark_of(FindingStatus status, bool unicode) {
  constexpr const char* symbols[] = {"✓", "!", "✗"};
  constexpr const char* words[] = {"ok     ", "warning", "PROBLEM"};
  return (unicode ? symbols : words)[static_cast<std::size_t>(status)];
}

}  // namespace

FindingStatus worst_status(std::span<const Finding> findings) {
  auto worst = FindingStatus::ok;
  for (const auto& finding : findings) worst = std::max(worst, finding.status);
  return worst;
}

void print_findings(std::ostream& stream, std::span<const Finding> findings, bool unicode,
                    int columns) {
  std::size_t width = 0;
  for (const auto& finding : findings) width = std::max(width, finding.name.size());
  const std::string indent(width + (unicode ? 4 : 10), ' ');
  for (const auto& finding : findings) {
    auto lines = fmt::format("{} {:{}}  {}\n", mark_of(finding.status, unicode), finding.name,
                             width, finding.text);
    if (!finding.remedy.empty())
      lines += fmt::format("{}{}{}\n", indent, unicode ? "→ " : "-> ", finding.remedy);
    stream << wrap(lines, columns, static_cast<int>(indent.size()));
  }
}

namespace {

struct DoctorArguments {
  bool probe = false;
  bool probe_processes = false;
};

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
      check_libtorch(),
      check_gpu()};
  if (const auto facts = gpu_facts()) {
    for (auto& finding : check_gpus(*facts)) findings.push_back(std::move(finding));
  }
  findings.push_back(check_fashion_mnist(fashion_mnist_folder));
  findings.push_back(check_cosmology(is_cosmology_built()));
  return findings;
}

int doctor(const DoctorArguments& arguments) {
  if (arguments.probe) return run_probe();
  if (arguments.probe_processes) return run_probe_of_processes();
  const auto findings = examine();
  std::cout << "kolo " KOLO_VERSION << (cuda_runtime() ? ", with CUDA\n" : ", CPU only\n");
  print_findings(std::cout, findings, progress_options_from_environment().unicode,
                 terminal_width(STDOUT_FILENO));
  return worst_status(findings) == FindingStatus::problem ? 1 : 0;  // warnings harm nothing
}

}  // namespace

void add_doctor_command(CLI::App& app, std::function<int()>& action) {
  const auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* const command =
      app.add_subcommand("doctor", "Check this machine: MPI, names, BLAS, threads, memory, data");
  command->add_flag("--probe", arguments->probe)->group("");  // what check_two_ranks() starts
  command->add_flag("--probe-processes", arguments->probe_processes)->group("");
  command->footer(
      "Example:\n"
      "  kolo doctor\n\n"
      "Exit status: 0 everything works (there may be warnings), 1 something is a problem.");
  command->callback([arguments, &action] { action = [arguments] { return doctor(*arguments); }; });
}

}  // namespace kolo
