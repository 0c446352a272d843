// Linear layers, and the kernels that compute them as convolutions without dimensions.
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "convolution_problem.h"
#include "kernels/fused.h"
#include "kolo/kernels/autocast.h"
#include "kolo/kernels/linear.h"

namespace kolo {
namespace {

// Batches and features up to some blocks of tiles; some leave the last ones partly empty.
void suit_linear(ConvolutionGeometry& geometry) {
  geometry.batch = 1 + geometry.batch * geometry.inputs % 70;
  geometry.inputs *= 5;
  geometry.outputs *= 3;
  geometry.has_taps_first = true;
}

std::vector<KernelCase> linear_cases() {
  constexpr auto bfloat16 = torch::kBFloat16;
  return {{"by_tap", make_tap_convolution, torch::kFloat, suit_linear},
          {"tiles", make_tile_convolution, bfloat16, suit_linear, true},
          {"usual_bfloat16", make_convolution_kernel, bfloat16, suit_linear, true},
          {"usual_float16", make_convolution_kernel, torch::kHalf, suit_linear, true}};
}

INSTANTIATE_TEST_SUITE_P(Linear, ConvolutionKernelTest,
                         testing::Combine(testing::ValuesIn(linear_cases()),
                                          testing::Values<std::size_t>(0), testing::Values(1, 2)),
                         case_name);

// A layer's results and gradients by name, of an input that takes part in them.
std::vector<std::pair<std::string, Tensor>> results_of(torch::nn::LinearImpl& layer,
                                                       const Tensor& output, const Tensor& input,
                                                       const Tensor& slope) {
  output.backward(slope.to(output.scalar_type()));
  std::vector<std::pair<std::string, Tensor>> results = {{"output", output.detach()},
                                                         {"gradient of the input", input.grad()}};
  for (const auto& item : layer.named_parameters())
    results.emplace_back(item.key(), item.value().grad().clone());
  layer.zero_grad();
  return results;
}

using Layer = Layers<Linear, torch::nn::Linear, torch::nn::LinearOptions>;

// Features, whether there is a bias, and an input's lengths before its features.
struct Shapes {
  std::int64_t inputs, outputs;
  bool has_bias;
  std::vector<std::int64_t> before;
};

// Whether kolo computes in bfloat16 here, in place of LibTorch.
bool has_kernel(const Shapes& shapes) {
  const auto batch = std::accumulate(shapes.before.begin(), shapes.before.end(), std::int64_t{1},
                                     std::multiplies<>());
  return make_convolution_kernel({.batch = batch,
                                  .inputs = shapes.outputs,
                                  .outputs = shapes.inputs,
                                  .bias = false,
                                  .has_taps_first = true,
                                  .type = torch::kBFloat16}) != nullptr;
}

TEST(Linear, IsNearlyTorchsInDoubleUnderAutocast) {
  torch::manual_seed(1);
  const auto round = [](const Tensor& values) { return values.to(torch::kBFloat16); };
  for (const auto& shapes :
       {Shapes{100, 70, true, {40}}, Shapes{64, 32, false, {5, 3}}, Shapes{7, 2, true, {33}},
        Shapes{256, 1, true, {2, 3, 4}}, Shapes{48, 48, true, {}}}) {
    const Layer layers(
        torch::nn::LinearOptions(shapes.inputs, shapes.outputs).bias(shapes.has_bias));
    auto layer = layers.ours;
    auto plain = layers.plain;
    auto lengths = shapes.before;
    lengths.push_back(shapes.inputs);
    const auto given = round(torch::randn(lengths));
    lengths.back() = shapes.outputs;
    const auto slope = round(torch::randn(lengths)).to(torch::kDouble);
    const auto x = given.to(torch::kFloat).requires_grad_();
    const auto x_plain = given.to(torch::kDouble).requires_grad_();
    Tensor y, of_torch;
    {
      const AutocastGuard guard(Precision::bf16);
      y = layer(x);
      of_torch = torch::linear(x, layer->weight, layer->bias);
    }
    EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
    if (!has_kernel(shapes)) {
      EXPECT_TRUE(y.equal(of_torch));
      continue;
    }
    const auto values = results_of(*layer, y, x, slope);
    const auto reference = results_of(*plain, plain(x_plain), x_plain, slope);
    for (std::size_t i = 0; i < values.size(); ++i)
      expect_nearly_ideal(values[i].second, reference[i].second, values[i].first.c_str());
  }
}

TEST(Linear, IsTorchsToTheBitOtherwise) {
  torch::manual_seed(2);
  Linear layer(40, 50);
  const auto is_torchs = [&](const Tensor& input) {
    return layer(input).equal(torch::linear(input, layer->weight, layer->bias));
  };
  EXPECT_TRUE(is_torchs(torch::randn({6, 40})));
  EXPECT_EQ(layer(torch::empty({0, 40})).sizes(), (std::vector<std::int64_t>{0, 50}));
  const AutocastGuard guard(Precision::bf16);
  EXPECT_EQ(layer(torch::empty({0, 40})).sizes(), (std::vector<std::int64_t>{0, 50}));
  EXPECT_THROW((void)layer(torch::randn({6, 41})), c10::Error);
  const PlainKernels plain;
  EXPECT_TRUE(is_torchs(torch::randn({6, 40})));
}

const torch::nn::LinearOptions many_weights(600, 450);

TEST(Linear, IsTorchsWithManyWeights) {
  torch::manual_seed(3);
  Layer layers(many_weights);
  for (const std::int64_t batch : {40, 1, 33, 40}) layers.expect_alike(torch::randn({batch, 600}));
  layers.expect_alike(torch::randn({600, 5}).t());
  layers.expect_alike(torch::randn({3, 4, 600}));
  Layer(torch::nn::LinearOptions(many_weights).bias(false)).expect_alike(torch::randn({9, 600}));
}

TEST(Linear, GivesGradientsToWhatWantsThem) {
  Linear layer(many_weights);
  const Destination destination(layer->weight);
  layer(torch::ones({3, 600})).sum().backward();  // an expanded gradient
  EXPECT_EQ(layer->weight.grad().data_ptr(), destination.memory().data_ptr());
  EXPECT_TRUE(layer->weight.grad().equal(torch::full({450, 600}, 3.F)));
  layer->zero_grad(/*set_to_none=*/true);
  layer->weight.requires_grad_(false);
  layer(torch::ones({3, 600})).sum().backward();
  EXPECT_FALSE(layer->weight.grad().defined());
  EXPECT_TRUE(layer->bias.grad().equal(torch::full({450}, 3.F)));
  const torch::NoGradGuard no_gradient;
  EXPECT_FALSE(layer(torch::ones({3, 600})).requires_grad());
}

// As a penalty on the slopes of a network needs them.
TEST(Linear, HasSecondDerivatives) {
  torch::manual_seed(4);
  Layer layers(many_weights);
  const auto values = torch::randn({7, 600});
  const auto gradients_of_penalty = [&](auto& layer, const Tensor& x) {
    const auto y = torch::tanh(layer(x)).sum();
    const auto slope = torch::autograd::grad({y}, {x}, {}, true, /*create_graph=*/true)[0];
    slope.square().sum().backward();
    return std::vector<Tensor>{layer->weight.grad(), layer->bias.grad(), x.grad()};
  };
  const auto ours = gradients_of_penalty(layers.ours, values.clone().requires_grad_());
  const auto plain = gradients_of_penalty(layers.plain, values.to(torch::kDouble).requires_grad_());
  for (std::size_t i = 0; i < ours.size(); ++i) expect_close(ours[i], plain[i], "gradient");
}

}  // namespace
}  // namespace kolo
