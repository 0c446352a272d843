#pragma once

#include <string>

#include <torch/types.h>

namespace kolo {

// A tensor under its name in a module or a file: "conv1.weight".
struct NamedTensor {
  std::string name;
  torch::Tensor tensor;
};

}  // namespace kolo
