#include <fmt/format.h>

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

}  // namespace kolo
