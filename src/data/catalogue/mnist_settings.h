#pragma once

#include "data/catalogue/dataset_settings.h"

// MNIST's four files, in a folder.
namespace kolo::datasets {

[[nodiscard]] Datasets read_mnist(const std::string& folder, const DatasetRequest& request);

[[nodiscard]] inline SampleLayout layout_of_mnist() {
  return {{1, 28, 28}, 10, {}};
}

}  // namespace kolo::datasets
