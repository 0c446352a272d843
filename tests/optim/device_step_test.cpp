// Steps on CUDA devices against those on the host, to the bit.
#include <cstring>
#include <vector>

#include <gmock/gmock.h>
#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "base/reduction_order.h"
#include "kolo/base/error.h"
#include "kolo/optim/flat_optimizer.h"
#include "optim/every_optimizer.h"
#include "optim/flat_buffers.h"
#include "optim/kernels.h"
#include "support/errors.h"
#include "support/gpu.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

constexpr double rate_of_steps = .02;

bool are_same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         (a.nbytes() == 0 || std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0);
}

// Constants of the step in the order in which devices add up.
optim::LarsConstants<double> lars_constants(const StepConstants& constants) {
  return optim::rounded<optim::LarsConstants<double>, double>(constants.data());
}

template <typename T>
double sum_of_squares(std::span<const T> values) {
  return reduction::total(
      values.size(), 0.,
      [&](std::size_t i) {
        return static_cast<double>(values[i]) * static_cast<double>(values[i]);
      },
      [](double a, double b) { return a + b; });
}

template <typename T>
void update_lars(const FlatSlice<T>& slice, const StepConstants& constants, bool has_momentum) {
  const double scale =
      optim::lars_scale(sum_of_squares<T>(slice.parameters), sum_of_squares<T>(slice.gradients),
                        lars_constants(constants));
  if (has_momentum)
    optim::run_steps(optim::step_of<optim::LarsStep<T, true>>(constants.data(), scale), slice);
  else
    optim::run_steps(optim::step_of<optim::LarsStep<T, false>>(constants.data(), scale), slice);
}

template <typename T>
void update_lamb(const FlatSlice<T>& slice, const StepConstants& constants) {
  std::vector<T> directions(slice.parameters.size());
  optim::lamb_directions(slice.parameters.data(), slice.gradients.data(), slice.state[0].data(),
                         slice.state[1].data(), directions.data(), directions.size(),
                         optim::rounded<optim::LambConstants<T>, T>(constants.data()));
  const double scale = optim::lamb_scale(sum_of_squares<T>(slice.parameters),
                                         sum_of_squares<T>(std::span<const T>(directions)));
  optim::run_steps(optim::step_of<optim::LambStep<T>>(constants.data(), scale), slice);
}

template <typename T>
void update_on_host(const FlatOptimizer& optimizer, const FlatSlice<T>& slice, std::int64_t step) {
  const bool has_scale = optimizer.is_layerwise() && !slice.is_vector;
  if (!has_scale) return optimizer.update(slice, rate_of_steps, step);
  const auto constants = optimizer.constants(rate_of_steps, step, slice.is_vector);
  if (optimizer.name() == "lars") {
    update_lars(slice, constants, !optimizer.state_names().empty());
  } else {
    update_lamb(slice, constants);
  }
}

// The same buffers on a device, from an element on that needn't be aligned.
template <typename T>
class DeviceBuffers {
 public:
  DeviceBuffers(Buffers<T>& host, std::size_t offset, std::size_t offset_of_gradients)
      : size_(host.parameters.size()),
        parameters_(copy_of(host.parameters, offset)),
        gradients_(copy_of(host.gradients, offset_of_gradients)) {
    for (auto& state : host.state) state_.push_back(copy_of(state, offset));
  }

  void set_gradients(std::vector<T>& gradients) { gradients_.copy_(as_tensor(gradients)); }
  [[nodiscard]] FlatSlice<T> slice(bool is_vector) {
    return {span_of(parameters_),
            span_of(gradients_),
            {span_of(state_[0]), span_of(state_[1]), span_of(state_[2])},
            is_vector};
  }
  [[nodiscard]] bool are_same(Buffers<T>& host) const {
    bool same = are_same_bits(parameters_.cpu(), as_tensor(host.parameters));
    for (std::size_t i = 0; i < 3; ++i)
      same = same && are_same_bits(state_[i].cpu(), as_tensor(host.state[i]));
    return same;
  }

 private:
  torch::Tensor copy_of(std::vector<T>& values, std::size_t offset) const {
    const auto size = static_cast<std::int64_t>(size_), from = static_cast<std::int64_t>(offset);
    const auto host = as_tensor(values);
    auto whole = torch::empty({size + from}, host.options().device(torch::kCUDA));
    return whole.narrow(0, from, size).copy_(host);
  }
  std::span<T> span_of(const torch::Tensor& tensor) const { return {tensor.data_ptr<T>(), size_}; }

  std::size_t size_;
  torch::Tensor parameters_, gradients_;
  std::vector<torch::Tensor> state_;
};

struct Layout {
  std::size_t size, offset, offset_of_gradients;
  bool is_vector;
};

template <typename T>
void compare(const FlatOptimizer& optimizer, const Layout& layout) {
  auto host = random_buffers<T>(layout.size, optimizer);
  DeviceBuffers<T> device(host, layout.offset, layout.offset_of_gradients);
  const auto on_device = torch::TensorOptions().device(torch::kCUDA);
  const auto constants = torch::zeros({static_cast<std::int64_t>(StepConstants().size())},
                                      on_device.dtype(torch::kDouble));
  const auto factor = torch::full({1}, .37, on_device.dtype(torch::kDouble));
  const auto left_out = torch::zeros({1}, on_device.dtype(torch::kInt));
  auto workspace =
      torch::empty({static_cast<std::int64_t>(optimizer.device_workspace_bytes(layout.size))},
                   on_device.dtype(torch::kByte));
  DeviceUpdate update{
      .constants = reinterpret_cast<const StepConstants*>(constants.data_ptr<double>()),
      .workspace = {static_cast<std::byte*>(workspace.data_ptr()), workspace.nbytes()}};
  for (std::int64_t step = 1; step <= 4; ++step) {
    auto numbers = optimizer.constants(rate_of_steps, step, layout.is_vector);
    constants.copy_(torch::from_blob(numbers.data(), {static_cast<std::int64_t>(numbers.size())},
                                     torch::kDouble));
    as_tensor(host.gradients).normal_();
    device.set_gradients(host.gradients);
    if (step == 2) update.gradient_factor = factor.data_ptr<double>();
    if (step == 3) update.left_out = left_out.data_ptr<std::int32_t>();
    left_out.fill_(step == 3 ? 1 : 0);
    optimizer.update_on_device(device.slice(layout.is_vector), update);
    if (step >= 2) as_tensor(host.gradients).mul_(static_cast<T>(.37));
    if (step != 3) {
      auto slice = host.whole();
      slice.is_vector = layout.is_vector;
      update_on_host(optimizer, slice, step);
    }
    ASSERT_TRUE(device.are_same(host))
        << layout.size << " elements from " << layout.offset << ", step " << step;
  }
}

class DeviceStep : public ::testing::TestWithParam<NamedOptimizer> {
 protected:
  void SetUp() override {
    KOLO_SKIP_WITHOUT_GPU();
    torch::manual_seed(11);
  }
};

TEST_P(DeviceStep, IsTheHostsToTheBit) {
  for (const std::size_t size : {0, 1, 3, 5000, 300'003}) {
    for (const Layout& layout : {Layout{size, 0, 0, false}, Layout{size, 1, 1, true},
                                 Layout{size, 3, 3, false}, Layout{size, 1, 2, false}}) {
      compare<float>(*GetParam().optimizer, layout);
      compare<double>(*GetParam().optimizer, layout);
    }
  }
}

TEST_P(DeviceStep, NamesWhatItLacks) {
  const FlatOptimizer& optimizer = *GetParam().optimizer;
  auto host = random_buffers<float>(8, optimizer);
  DeviceBuffers<float> device(host, 0, 0);
  const auto message = [&](const FlatSlice<float>& slice, const DeviceUpdate& update) {
    return message_of<Error>([&] { optimizer.update_on_device(slice, update); });
  };
  const StepConstants constants{};
  std::vector<std::byte> workspace(optimizer.device_workspace_bytes(8));
  auto slice = device.slice(false);
  EXPECT_TRUE(says(message(slice, {.workspace = workspace}), {"without constants"}));
  slice.gradients = slice.gradients.first(7);
  EXPECT_TRUE(says(message(slice, {.constants = &constants, .workspace = workspace}),
                   {"7 gradients for 8 parameters"}));
  EXPECT_TRUE(device.are_same(host));
}

INSTANTIATE_TEST_SUITE_P(Optimizers, DeviceStep, ::testing::ValuesIn(every_optimizer()),
                         [](const auto& each) { return each.param.label; });

TEST(DeviceStepWithoutGpu, ALaunchThatIsRefusedNamesTheKernel) {
  if (torch::cuda::is_available()) GTEST_SKIP() << "a launch is refused only where there is no GPU";
  const auto adam = make_adam({});
  const StepConstants constants{};
  Buffers<float> buffers(8);
  EXPECT_TRUE(says(message_of<Error>(
                       [&] { adam->update_on_device(buffers.whole(), {.constants = &constants}); }),
                   {"optim: the CUDA kernel AdamStep<float, false> can't be started: "}));
  EXPECT_EQ(buffers.parameters, Buffers<float>(8).parameters);
}

}  // namespace
}  // namespace kolo::testing
