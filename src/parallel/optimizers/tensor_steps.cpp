#include "parallel/optimizers/tensor_steps.h"

#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>

#include "kolo/base/error.h"
#include "parallel/tensors/tensors.h"

namespace kolo::parallel {

namespace {

void update_through_host(const FlatOptimizer& optimizer, const TensorSlice& slice, StepRate rate,
                         std::int64_t step, const GradientUse& use) {
  const auto gradients = use.factor.defined()
                             ? slice.gradients * use.factor.to(slice.gradients.scalar_type())
                             : slice.gradients;
  TensorSlice here = slice;
  here.parameters = slice.parameters.cpu();
  here.gradients = gradients.cpu();
  here.state.clear();
  for (const auto& state : slice.state) here.state.push_back(state.cpu());
  update_on_host(optimizer, here, rate, step);
  const auto take = [&](const torch::Tensor& from, torch::Tensor to) {
    const auto updated = from.to(to.device());
    to.copy_(use.left_out.defined() ? torch::where(use.left_out.ne(0), to, updated) : updated);
  };
  take(here.parameters, slice.parameters);
  for (std::size_t i = 0; i < slice.state.size(); ++i) take(here.state[i], slice.state[i]);
}

constexpr std::size_t most_constants = 16;

}  // namespace

void TensorSteps::update(const FlatOptimizer& optimizer, const TensorSlice& slice, StepRate rate,
                         std::int64_t step, const GradientUse& use) {
  if (slice.parameters.is_cpu()) return update_on_host(optimizer, slice, rate, step);
  if (!slice.parameters.is_cuda()) return update_through_host(optimizer, slice, rate, step, use);
  const auto device = slice.parameters.device();
  const c10::DeviceGuard guard(device);
  const auto constants = constants_of(optimizer, slice, rate, step);
  const auto bytes = static_cast<std::int64_t>(
      optimizer.device_workspace_bytes(static_cast<std::size_t>(slice.parameters.numel())));
  if (!workspace_.defined() || workspace_.numel() < bytes)
    workspace_ = torch::empty({bytes}, torch::TensorOptions(torch::kByte).device(device));
  const DeviceUpdate update{
      .stream = current_stream(device),
      .constants = reinterpret_cast<const StepConstants*>(constants.data_ptr<double>()),
      .gradient_factor = use.factor.defined() ? use.factor.data_ptr<double>() : nullptr,
      .left_out = use.left_out.defined() ? use.left_out.data_ptr<std::int32_t>() : nullptr,
      .workspace = elements_of<std::byte>(workspace_)};
  if (slice.parameters.scalar_type() == torch::kDouble)
    optimizer.update_on_device(flat_slice<double>(slice), update);
  else
    optimizer.update_on_device(flat_slice<float>(slice), update);
}

// LibTorch hands the pinned memory out again when the copy is done, and the copy keeps the order of
// the stream: earlier steps have read what was there before.
void TensorSteps::Constants::fill() {
  if (is_capturing(values.device())) {
    throw Error(fmt::format(
        "parallel: the constants of step {} are not on the device, and while a graph is recorded "
        "they can't be copied there",
        step));
  }
  const auto numbers = optimizer->constants(rate, step, is_vector);
  const auto pinned = torch::empty({static_cast<std::int64_t>(numbers.size())},
                                   torch::TensorOptions(torch::kDouble).pinned_memory(true));
  std::copy(numbers.begin(), numbers.end(), pinned.data_ptr<double>());
  values.copy_(pinned, /*non_blocking=*/true);
}

// Overwrites the constants of the step before, where there are some: parameters that have left out
// steps have constants of their own.
torch::Tensor TensorSteps::constants_of(const FlatOptimizer& optimizer, const TensorSlice& slice,
                                        StepRate rate, std::int64_t step) {
  Constants* found = nullptr;
  for (Constants& known : constants_) {
    if (known.optimizer != &optimizer || known.is_vector != slice.is_vector) continue;
    if (known.rate == rate && known.step == step) return known.values;
    if (known.step == step - 1) found = &known;
  }
  if (found == nullptr) {
    if (constants_.size() == most_constants) constants_.clear();
    constants_.push_back({&optimizer, slice.is_vector, 0., 0,
                          torch::empty({static_cast<std::int64_t>(StepConstants{}.size())},
                                       slice.parameters.options().dtype(torch::kDouble))});
    found = &constants_.back();
  }
  found->rate = rate;
  found->step = step;
  found->fill();
  return found->values;
}

void TensorSteps::advance(StepRate rate, std::int64_t steps) {
  for (Constants& each : constants_) {
    each.rate = rate;
    each.step += steps;
    each.fill();
  }
}

}  // namespace kolo::parallel
