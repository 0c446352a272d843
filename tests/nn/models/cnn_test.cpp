#include <cmath>

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

torch::Tensor plain_cnn(const Parameters& p, torch::Tensor x) {
  for (const char* name : {"convolution1", "convolution2", "convolution3"})
    x = torch::max_pool2d(torch::relu(plain_convolution(p, name, x, 1, 1)), 2);
  x = x.reshape({x.size(0), -1});
  x = torch::relu(torch::addmm(p["hidden.bias"], x, p["hidden.weight"].t()));
  return torch::addmm(p["output.bias"], x, p["output.weight"].t());
}

TEST(Cnn, HasTheParametersCountedByHand) {
  const auto network = make_network("cnn", {.input_shape = {3, 32, 32}, .classes = 10});
  const std::int64_t convolutions = (3 * 9 * 16 + 16) + (16 * 9 * 32 + 32) + (32 * 9 * 64 + 64);
  EXPECT_EQ(testing::parameter_count(*network),
            convolutions + (64 * 4 * 4 * 128 + 128) + (128 * 10 + 10));
  EXPECT_EQ(testing::parameter_count(*network), 156074);
}

TEST(Cnn, EqualsTheSameNetworkWrittenPlainly) {
  torch::manual_seed(6);
  // Pooling drops what is left over at odd sizes.
  const auto network = make_network("cnn", {.input_shape = {2, 19, 14}, .classes = 5});
  {
    const torch::NoGradGuard no_gradient;
    for (const auto& parameter : network->parameters())
      if (parameter.dim() == 1) parameter.uniform_(-1, 1);
  }
  testing::expect_same_network(*network, plain_cnn, torch::randn({3, 2, 19, 14}));
}

TEST(Cnn, StartsAsKerasLayersDo) {
  torch::manual_seed(7);
  const auto network = make_network("cnn", {.input_shape = {3, 32, 32}, .classes = 10});
  for (const auto& item : network->named_parameters()) {
    const torch::Tensor& parameter = item.value();
    if (parameter.dim() == 1) {
      EXPECT_EQ(parameter.count_nonzero().item<int>(), 0) << item.key();
      continue;
    }
    const auto kernel = parameter.numel() / parameter.size(0) / parameter.size(1);
    const double bound =
        std::sqrt(6.0 / static_cast<double>(kernel * (parameter.size(0) + parameter.size(1))));
    EXPECT_LE(parameter.abs().max().item<double>(), bound) << item.key();
    EXPECT_NEAR(parameter.std().item<double>(), bound / std::sqrt(3.0), 0.06 * bound) << item.key();
  }
}

TEST(Cnn, DropsOutOnlyWhenTold) {
  torch::manual_seed(8);
  const torch::Tensor input = torch::randn({4, 3, 16, 16});
  const auto certain = make_network("cnn", {.input_shape = {3, 16, 16}, .classes = 10});
  EXPECT_TRUE(torch::equal(certain->forward(input), certain->forward(input)));
  const auto dropping =
      make_network("cnn", {.input_shape = {3, 16, 16}, .classes = 10, .dropout = 0.5});
  EXPECT_FALSE(torch::equal(dropping->forward(input), dropping->forward(input)));
  dropping->eval();
  EXPECT_TRUE(torch::equal(dropping->forward(input), dropping->forward(input)));
}

TEST(Cnn, TheSmallestImageWorksAndSmallerOnesAreRefused) {
  const auto network = make_network("cnn", {.input_shape = {1, 8, 8}, .classes = 1});
  EXPECT_EQ(network->forward(torch::zeros({2, 1, 8, 8})).sizes(),
            (std::vector<std::int64_t>{2, 1}));
  EXPECT_TRUE(says(testing::message_of<InputError>([] {
                     (void)make_network("cnn", {.input_shape = {1, 8, 7}, .classes = 1});
                   }),
                   {"images of 8x7 pixels are too small, expected at least 8x8"}));
}

}  // namespace
}  // namespace kolo
