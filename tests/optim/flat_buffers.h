#pragma once

#include <array>
#include <span>
#include <vector>

#include <torch/types.h>

#include "kolo/optim/flat_optimizer.h"

namespace kolo::testing {

// Flat buffers of one type, as an arena would hold them.
template <typename T>
struct Buffers {
  explicit Buffers(std::size_t size) : parameters(size), gradients(size), state{} {
    for (auto& buffer : state) buffer.resize(size);
  }
  Buffers(std::size_t size, const FlatOptimizer& optimizer) : Buffers(size) {
    for (std::size_t i = 0; i < optimizer.state_names().size(); ++i) state[i].assign(size, 0);
  }

  FlatSlice<T> slice(std::size_t begin, std::size_t end) {
    const auto part = [&](std::vector<T>& values) {
      return std::span(values).subspan(begin, end - begin);
    };
    return {part(parameters), part(gradients), {part(state[0]), part(state[1]), part(state[2])}};
  }
  FlatSlice<T> whole() { return slice(0, parameters.size()); }

  std::vector<T> parameters, gradients;
  std::array<std::vector<T>, 3> state;
};

template <typename T>
torch::Tensor as_tensor(std::vector<T>& values) {
  return torch::from_blob(values.data(), static_cast<std::int64_t>(values.size()),
                          torch::CppTypeToScalarType<T>::value);
}

// Normal parameters and gradients, the state as the optimizer begins with.
template <typename T>
Buffers<T> random_buffers(std::size_t size, const FlatOptimizer& optimizer) {
  Buffers<T> buffers(size, optimizer);
  as_tensor(buffers.parameters).normal_();
  as_tensor(buffers.gradients).normal_();
  return buffers;
}

}  // namespace kolo::testing
