#include "parallel/optimizers/tensor_steps.h"

#include <c10/core/DeviceGuard.h>

#include "parallel/tensors/device_stream.h"

namespace kolo::parallel {

namespace {

template <typename T>
std::span<T> span_of(const torch::Tensor& flat) {
  return {flat.data_ptr<T>(), static_cast<std::size_t>(flat.numel())};
}

template <typename T>
FlatSlice<T> flat(const TensorSlice& tensors) {
  FlatSlice<T> slice;
  slice.parameters = span_of<T>(tensors.parameters);
  slice.gradients = span_of<T>(tensors.gradients);
  for (std::size_t place = 0; place < tensors.state.size(); ++place)
    slice.state.at(place) = span_of<T>(tensors.state[place]);
  slice.is_vector = tensors.is_vector;
  return slice;
}

void update_on_host(const FlatOptimizer& optimizer, const TensorSlice& slice, double learning_rate,
                    std::int64_t step) {
  if (slice.parameters.scalar_type() == torch::kDouble)
    optimizer.update(flat<double>(slice), learning_rate, step);
  else
    optimizer.update(flat<float>(slice), learning_rate, step);
}

void update_through_host(const FlatOptimizer& optimizer, const TensorSlice& slice,
                         double learning_rate, std::int64_t step) {
  TensorSlice here{slice.parameters.cpu(), slice.gradients.cpu(), {}, slice.is_vector};
  for (const auto& state : slice.state) here.state.push_back(state.cpu());
  update_on_host(optimizer, here, learning_rate, step);
  torch::Tensor(slice.parameters).copy_(here.parameters);
  for (std::size_t place = 0; place < slice.state.size(); ++place)
    torch::Tensor(slice.state[place]).copy_(here.state[place]);
}

}  // namespace

void TensorSteps::update(const FlatOptimizer& optimizer, const TensorSlice& slice,
                         double learning_rate, std::int64_t step) {
  if (slice.parameters.device().is_cpu())
    return update_on_host(optimizer, slice, learning_rate, step);
  if (!slice.parameters.is_cuda())
    return update_through_host(optimizer, slice, learning_rate, step);
  const c10::DeviceGuard guard(slice.parameters.device());
  if (slice.parameters.scalar_type() == torch::kDouble)
    update_on_cuda<double>(optimizer, slice, learning_rate, step);
  else
    update_on_cuda<float>(optimizer, slice, learning_rate, step);
}

// LibTorch's allocators hand memory out again in the order of the stream: that of the constants
// when the step has read them, their pinned memory of the host when the copy is done.
template <typename T>
void TensorSteps::update_on_cuda(const FlatOptimizer& optimizer, const TensorSlice& slice,
                                 double learning_rate, std::int64_t step) {
  const auto values = optimizer.constants(learning_rate, step, slice.is_vector);
  const auto device = slice.parameters.device();
  const auto size = static_cast<std::int64_t>(values.size());
  const auto pinned =
      torch::empty({size}, torch::TensorOptions(torch::kDouble).pinned_memory(true));
  std::copy(values.begin(), values.end(), pinned.data_ptr<double>());
  const auto constants = pinned.to(device, /*non_blocking=*/true);
  const auto bytes = static_cast<std::int64_t>(
      optimizer.device_workspace_bytes(static_cast<std::size_t>(slice.parameters.numel())));
  if (!workspace_.defined() || workspace_.numel() < bytes)
    workspace_ = torch::empty({bytes}, torch::TensorOptions(torch::kByte).device(device));
  optimizer.update_on_device(
      flat<T>(slice),
      {.stream = current_stream(device),
       .constants = reinterpret_cast<const StepConstants*>(constants.data_ptr<double>()),
       .workspace = {static_cast<std::byte*>(workspace_.data_ptr()),
                     static_cast<std::size_t>(workspace_.numel())}});
}

}  // namespace kolo::parallel
