#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/doctor/gpu_facts.h"
#include "kolo/train/observe/format.h"

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
      facts.driver == 0
          ? "no driver"
          : fmt::format("driver{}{} for CUDA up to {}", facts.driver_version.empty() ? "" : " ",
                        facts.driver_version, version_of(facts.driver))};
  finding.text = fmt::format("{}", fmt::join(parts, "; "));
  // A driver runs later CUDA of its own major version too.
  const int newest = std::max(facts.runtime, facts.libtorch);
  if (facts.driver != 0 && facts.driver / 1000 < newest / 1000) {
    finding.status = FindingStatus::warning;
    finding.remedy = fmt::format(
        "the driver is older than CUDA {}: update it, or build with a LibTorch and nvcc for CUDA "
        "{} or older",
        version_of(newest), version_of(facts.driver));
  } else if (facts.libtorch != 0 && facts.libtorch / 1000 != facts.runtime / 1000) {
    finding.status = FindingStatus::warning;
    finding.remedy =
        fmt::format("build kolo with the nvcc of LibTorch's CUDA, {}", version_of(facts.libtorch));
  }
  return finding;
}

Finding check_device(std::size_t index, const GpuFacts::Device& device) {
  Finding finding{.name = fmt::format("GPU {}", index)};
  finding.text = fmt::format(
      "{}, PCI {}, compute capability {}, {} of {} free{}", device.name, device.place,
      device.capability, format_bytes(device.free_bytes), format_bytes(device.total_bytes),
      device.limit_watts ? fmt::format(", {:.0f} W at most", *device.limit_watts) : "");
  if (!device.has_kernels) {
    finding.status = FindingStatus::problem;
    finding.text += "; kolo's kernels were not compiled for it";
    finding.remedy = fmt::format("build with -DTORCH_CUDA_ARCH_LIST={}", device.capability);
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

Finding check_nvml(const GpuFacts& facts) {
  return {
      .name = "NVML",
      .text = facts.nvml_problem.empty()
                  ? "power, use, clock and temperature of GPUs are recorded"
                  : fmt::format("power and use of GPUs are not recorded: {}", facts.nvml_problem)};
}

}  // namespace

std::vector<Finding> check_gpus(const GpuFacts& facts) {
  std::vector<Finding> findings = {check_versions(facts)};
  for (std::size_t index = 0; index < facts.devices.size(); ++index)
    findings.push_back(check_device(index, facts.devices[index]));
  if (facts.devices.size() > 1) findings.push_back(check_reach(facts));
  findings.push_back(check_nvml(facts));
  return findings;
}

}  // namespace kolo
