#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/doctor/checks.h"
#include "kolo/data/mnist.h"

namespace kolo {

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
