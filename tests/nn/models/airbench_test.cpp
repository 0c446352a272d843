#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "kolo/base/error.h"
#include "kolo/nn/models.h"
#include "nn/models/same_network.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo {
namespace {

using testing::Parameters;
using testing::plain_convolution;

torch::Tensor plain_shift_norm(const Parameters& p, const std::string& name,
                               const torch::Tensor& x) {
  const auto mean = x.mean({0, 2, 3}, /*keepdim=*/true);
  const auto variance = (x - mean).square().mean({0, 2, 3}, /*keepdim=*/true);
  return (x - mean) / (variance + 1e-12).sqrt() + 8 * p[name + ".shift"].view({1, -1, 1, 1});
}

torch::Tensor plain_airbench(const Parameters& p, torch::Tensor x) {
  x = torch::gelu(plain_convolution(p, "whitening", x, 1, 0));
  for (int number = 1; number <= 3; ++number) {
    const auto block = fmt::format("block{}.", number);
    x = torch::max_pool2d(plain_convolution(p, block + "convolution1", x, 1, 1), 2);
    x = torch::gelu(plain_shift_norm(p, block + "norm1", x));
    x = plain_convolution(p, block + "convolution2", x, 1, 1);
    x = torch::gelu(plain_shift_norm(p, block + "norm2", x));
  }
  return x.flatten(2).amax(2).mm(p["output.weight"].t()) / 9;
}

TEST(Airbench, HasTheParametersCountedByHand) {
  const auto network = make_network("airbench", {.input_shape = {3, 32, 32}, .classes = 10});
  const std::int64_t whitening = 24 * 3 * 4 + 24;
  const std::int64_t block1 = (24 + 64) * 64 * 9 + 2 * 64;
  const std::int64_t block2 = (64 + 256) * 256 * 9 + 2 * 256;
  const std::int64_t block3 = (256 + 256) * 256 * 9 + 2 * 256;
  EXPECT_EQ(testing::parameter_count(*network), whitening + block1 + block2 + block3 + 256 * 10);
}

TEST(Airbench, EqualsTheSameNetworkWrittenPlainly) {
  torch::manual_seed(8);
  const auto network = make_network("airbench", {.input_shape = {2, 29, 26}, .classes = 5});
  {
    const torch::NoGradGuard no_gradient;
    for (const auto& parameter : network->parameters())
      if (parameter.dim() == 1) parameter.uniform_(-.1, .1);
  }
  for (auto& parameter : network->parameters()) parameter.set_requires_grad(true);
  testing::expect_same_network(*network, plain_airbench, torch::randn({3, 2, 29, 26}));
}

TEST(Airbench, ItsPatchesAreWhitenedOnceItHasSeenSamplesAndStaySo) {
  torch::manual_seed(9);
  const auto network = make_network("airbench", {.input_shape = {2, 28, 28}, .classes = 10});
  EXPECT_GT(network->first_samples(), 0);
  // Neighbours that are alike, and channels as well.
  const auto noise = torch::randn({300, 1, 29, 29});
  const auto smooth = noise.slice(2, 1).slice(3, 1) + noise.slice(2, 0, 28).slice(3, 0, 28);
  const auto samples = torch::cat({smooth, smooth + torch::randn({300, 1, 28, 28})}, 1);
  network->begin_with(samples);
  const auto weight = network->named_parameters()["whitening.weight"];
  EXPECT_FALSE(weight.requires_grad());
  ASSERT_EQ(weight.sizes(), (std::vector<std::int64_t>{16, 2, 2, 2}));
  EXPECT_TRUE(weight.slice(0, 8).equal(-weight.slice(0, 0, 8)));
  const auto outputs = torch::conv2d(samples, weight.slice(0, 0, 8)).permute({1, 0, 2, 3});
  const auto flat = outputs.reshape({8, -1});
  const auto covariance = flat.mm(flat.t()) / flat.size(1);
  EXPECT_TRUE(covariance.allclose(torch::eye(8), 0, 5e-3)) << covariance;
}

TEST(Airbench, RefusesImagesOfWhichNothingWouldBeLeft) {
  EXPECT_NO_THROW((void)make_network("airbench", {.input_shape = {1, 25, 25}, .classes = 2}));
  EXPECT_TRUE(says(testing::message_of<InputError>([] {
                     (void)make_network("airbench", {.input_shape = {1, 24, 28}, .classes = 2});
                   }),
                   {"airbench"}));
}

}  // namespace
}  // namespace kolo
