// Batch norms by kolo's kernels on a GPU are those of LibTorch.
#include <gmock/gmock.h>
#include <torch/cuda.h>

#include "kernels/fused.h"
#include "kolo/kernels/device_norm.h"
#include "support/gpu.h"

namespace kolo::testing {
namespace {

struct Case {
  std::int64_t images, channels, height, width;
  torch::ScalarType type;
  bool adds;
  Activation activation;
};

// The output, gradients of input, addend, weight and bias, and the running statistics, of values of
// the test's type that are computed with in `type`.
std::vector<torch::Tensor> outcome_of(const Case& test, torch::ScalarType type, bool by_kernels) {
  const torch::Device device(torch::kCUDA, 0);
  torch::manual_seed(5);
  const auto values = [&](double shift) {
    return (torch::randn({test.images, test.channels, test.height, test.width}) + shift)
        .to(device, test.type)
        .to(type)
        .contiguous(at::MemoryFormat::ChannelsLast);
  };
  torch::nn::BatchNorm2d norm(test.channels);
  {
    const torch::NoGradGuard no_gradient;
    norm->weight.copy_(torch::rand({test.channels}) + .5);
    norm->bias.copy_(torch::randn({test.channels}));
  }
  norm->to(device);
  const auto input = values(3).requires_grad_(), addend = values(0).requires_grad_();
  const auto gradient = values(0);
  const DeviceNorm kernels(by_kernels);
  const auto output =
      batch_norm(*norm, input * 1, test.adds ? addend * 1 : torch::Tensor(), test.activation);
  output.backward(gradient);
  std::vector<torch::Tensor> all{output.detach(),          input.grad(),       norm->weight.grad(),
                                 norm->bias.grad(),        norm->running_mean, norm->running_var,
                                 norm->num_batches_tracked};
  if (test.adds) all.push_back(addend.grad());
  return all;
}

class DeviceNorms : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override { KOLO_SKIP_WITHOUT_GPU(); }
};

TEST_P(DeviceNorms, AreThoseOfLibTorch) {
  const auto type = GetParam().type;
  const auto kernels = outcome_of(GetParam(), type, true),
             operators = outcome_of(GetParam(), type, false),
             exact = outcome_of(GetParam(), torch::kFloat, false);
  ASSERT_EQ(kernels.size(), exact.size());
  const auto mean_error = [&](const torch::Tensor& values, const torch::Tensor& truth) {
    return (values.to(torch::kDouble) - truth.to(torch::kDouble)).abs().mean().item<double>();
  };
  // On average, because near zero a ReLU may fall to either side. Of 16 bits LibTorch rounds the
  // norm and the sum, the kernels only the latter.
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const double size = exact[i].to(torch::kDouble).abs().mean().item<double>();
    EXPECT_LE(mean_error(kernels[i], exact[i]),
              1.1 * mean_error(operators[i], exact[i]) + 1e-4 * size)
        << "tensor " << i << " of mean size " << size;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, DeviceNorms,
    ::testing::Values(Case{8, 64, 14, 14, torch::kFloat, false, Activation::none},
                      Case{8, 64, 14, 14, torch::kFloat, true, Activation::relu},
                      Case{3, 24, 7, 5, torch::kHalf, true, Activation::none},
                      Case{16, 256, 9, 9, torch::kHalf, true, Activation::relu},
                      Case{32, 2048, 7, 7, torch::kBFloat16, false, Activation::relu},
                      Case{5, 7, 6, 6, torch::kBFloat16, true, Activation::relu},
                      Case{64, 64, 56, 56, torch::kBFloat16, true, Activation::relu}));

}  // namespace
}  // namespace kolo::testing
