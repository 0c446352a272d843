#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/statvfs.h>
#include <torch/cuda.h>
#include <unistd.h>

#include "cli/doctor/checks.h"
#include "kolo/data/mnist.h"

namespace kolo {

Finding check_processors(const CpuLimits& limits, const EnvironmentLookup& lookup) {
  Finding finding{.name = "processors"};
  finding.text = fmt::format("{} CPUs on {} cores to use, of {} online", limits.affinity,
                             limits.affinity_cores, limits.online);
  if (limits.quota) finding.text += fmt::format("; limited to {:.3g} CPUs' time", *limits.quota);
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
  const bool has_device = torch::cuda::is_available() || ::access("/dev/nvidiactl", F_OK) == 0;
  finding.text = has_device ? "there is one, but kolo trains on the CPU only"
                            : "none; kolo trains on the CPU only";
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

Finding check_side_products(bool fetching, bool cosmology) {
  Finding finding{.name = "commands", .text = "all are built in"};
  std::vector<std::string> missing, packages;
  if (!fetching) {
    missing.emplace_back("kolo data fetch");
    packages.emplace_back("libcurl, libarchive and OpenSSL (KOLO_FETCH=ON)");
  }
  if (!cosmology) {
    missing.emplace_back("kolo data nbody");
    packages.emplace_back("FFTW (KOLO_COSMOLOGY=ON)");
  }
  if (missing.empty()) return finding;
  finding.status = FindingStatus::warning;
  finding.text = fmt::format("built without {}", fmt::join(missing, " and "));
  finding.remedy = fmt::format("build with {}", fmt::join(packages, ", "));
  return finding;
}

}  // namespace kolo
