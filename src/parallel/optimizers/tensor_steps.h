#pragma once

#include <cstdint>
#include <vector>

#include <torch/types.h>

#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/bucket_optimizer.h"
#include "parallel/tensors/tensors.h"

namespace kolo::parallel {

// A FlatSlice as one-dimensional tensors of one type.
struct TensorSlice {
  torch::Tensor parameters;
  torch::Tensor gradients;
  std::vector<torch::Tensor> state;
  bool is_vector = false;
  // Gradients of several ranks, in the host's memory, whose average a step takes instead.
  std::vector<torch::Tensor> to_average;
};

template <typename T>
[[nodiscard]] FlatSlice<T> flat_slice(const TensorSlice& tensors) {
  FlatSlice<T> slice;
  slice.parameters = elements_of<T>(tensors.parameters);
  slice.gradients = elements_of<T>(tensors.gradients);
  for (std::size_t i = 0; i < tensors.state.size(); ++i)
    slice.state.at(i) = elements_of<T>(tensors.state[i]);
  slice.is_vector = tensors.is_vector;
  return slice;
}

// Makes a step in the host's memory, in pieces on LibTorch's threads. An average lies in a cache
// only, so that all memory is read and written once.
void update_on_host(const FlatOptimizer& optimizer, const TensorSlice& slice, StepRate rate,
                    std::int64_t step);

// The steps of optimizers where their tensors are: on CUDA's devices in the order of the current
// stream, without waiting for anything. Slices on other devices go to the host and back, which is
// slow and always possible. The optimizers must outlive this. `use` is for devices alone.
class TensorSteps {
 public:
  void update(const FlatOptimizer& optimizer, const TensorSlice& slice, StepRate rate,
              std::int64_t step, const GradientUse& use = {});
  // Moves the constants on the device `steps` steps ahead, to this rate, before a captured graph is
  // replayed.
  void advance(StepRate rate, std::int64_t steps);

 private:
  // FlatOptimizer::constants() on the device, the same for many slices of a step. They keep their
  // address there for the steps that follow.
  struct Constants {
    const FlatOptimizer* optimizer;
    bool is_vector;
    StepRate rate;
    std::int64_t step;
    torch::Tensor values;

    void fill();
  };

  [[nodiscard]] torch::Tensor constants_of(const FlatOptimizer& optimizer, const TensorSlice& slice,
                                           StepRate rate, std::int64_t step);

  std::vector<Constants> constants_;
  torch::Tensor workspace_;  // of CUDA's steps
};

}  // namespace kolo::parallel
