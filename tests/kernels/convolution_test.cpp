// Every kernel against LibTorch's convolution in float64, over random geometries.
#include <random>

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <torch/csrc/autograd/function_hook.h>

#include "convolution_problem.h"
#include "kolo/base/error.h"
#include "kolo/base/gradient_destination.h"
#include "kolo/kernels/convolution.h"
#include "kernels/convolution_kernel.h"
#include "kernels/fused.h"

namespace kolo {
namespace {

// Relative to the largest value: sums of a few hundred products in float32.
// Beside what a rounding of the result to its type changes.
void expect_close(const Tensor& value, const Tensor& reference, const char* what) {
  ASSERT_EQ(value.sizes(), reference.sizes()) << what;
  const double scale = 1e-3 + reference.abs().max().item<double>();
  const double tolerance = value.scalar_type() == torch::kBFloat16 ? 4e-3 : 1e-5;
  EXPECT_LT((value.to(torch::kDouble) - reference).abs().max().item<double>(), tolerance * scale)
      << what;
}

// Of a kernel that rounds what it multiplies: by root mean squares.
void expect_near(const Tensor& value, const Tensor& reference, double rounding, const char* what) {
  ASSERT_EQ(value.sizes(), reference.sizes()) << what;
  const double error = (value.to(torch::kDouble) - reference).norm().item<double>();
  EXPECT_LT(error, rounding * (1e-3 + reference.norm().item<double>())) << what;
}

void expect_near(const Values& values, const Values& reference, double rounding) {
  expect_near(values.output, reference.output, rounding, "output");
  expect_near(values.of_input, reference.of_input, rounding, "gradient of the input");
  expect_near(values.of_weight, reference.of_weight, rounding, "gradient of the weight");
  ASSERT_EQ(values.of_bias.defined(), reference.of_bias.defined());
  if (values.of_bias.defined()) expect_close(values.of_bias, reference.of_bias, "of the bias");
}

void expect_close(const Values& values, const Values& reference) {
  expect_close(values.output, reference.output, "output");
  expect_close(values.of_input, reference.of_input, "gradient of the input");
  expect_close(values.of_weight, reference.of_weight, "gradient of the weight");
  ASSERT_EQ(values.of_bias.defined(), reference.of_bias.defined());
  if (values.of_bias.defined()) expect_close(values.of_bias, reference.of_bias, "of the bias");
}

TEST_P(ConvolutionKernelTest, EqualsLibTorchs) {
  const auto& [kernel_case, dimensions, threads] = GetParam();
  std::mt19937 random(static_cast<unsigned>(7 * dimensions) + static_cast<unsigned>(threads));
  for (int round = 0; round < 25; ++round) {
    auto geometry = random_geometry(random, dimensions);
    kernel_case.suit(geometry);
    SCOPED_TRACE(text_of(geometry));
    const Problem problem(geometry);
    const auto kernel = kernel_case.make(geometry);
    if (!kernel) continue;  // nothing vectorized: LibTorch's is taken
    const auto values = problem.by(*kernel), reference = problem.reference();
    if (kernel_case.rounding > 0) {
      expect_near(values, reference, kernel_case.rounding);
    } else {
      expect_close(values, reference);
    }
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, ConvolutionKernelTest,
                         testing::Combine(testing::ValuesIn(kernel_cases()),
                                          testing::Values<std::size_t>(1, 2, 3),
                                          testing::Values(1, 2)),
                         case_name);

INSTANTIATE_TEST_SUITE_P(ImageLanes, ConvolutionKernelTest,
                         testing::Combine(testing::Values(KernelCase{"image_lanes",
                                                                     make_image_lane_convolution,
                                                                     suit_image_lanes}),
                                          testing::Values<std::size_t>(2), testing::Values(1, 2)),
                         case_name);

// Steps of a layer as a network makes them, beside torch::nn::Conv2d of the same weights.
struct Layers {
  Convolution2d ours;
  torch::nn::Conv2d plain;

  explicit Layers(const torch::nn::Conv2dOptions& options) : ours(options), plain(options) {
    const torch::NoGradGuard no_gradient;
    for (const auto& item : plain->named_parameters())
      item.value().copy_(ours->named_parameters()[item.key()]);
  }

  void expect_alike(const Tensor& given) {
    const auto x = given.detach().clone().requires_grad_();
    const auto x_plain = given.detach().clone().requires_grad_();
    ours->zero_grad();
    plain->zero_grad();
    const auto y = ours(x), y_plain = plain(x_plain);
    ASSERT_TRUE(y.allclose(y_plain, 1e-5, 1e-5));
    if (y.numel() == 0) return;
    y.square().sum().backward();
    y_plain.square().sum().backward();
    EXPECT_TRUE(x.grad().allclose(x_plain.grad(), 1e-4, 1e-4));
    for (const auto& item : plain->named_parameters())
      EXPECT_TRUE(
          ours->named_parameters()[item.key()].grad().allclose(item.value().grad(), 1e-4, 1e-3))
          << item.key();
  }
};

using Options = torch::nn::Conv2dOptions;

TEST(Convolution2d, IsTorchsForWholeAndLastBatchesInAnyLayout) {
  torch::manual_seed(2);
  Layers layers(Options(3, 8, 3).stride(2).padding(1));
  for (const std::int64_t batch : {4, 4, 1, 3, 2, 5, 4}) {
    layers.expect_alike(torch::randn({batch, 3, 9, 7}));
    layers.expect_alike(torch::randn({batch, 3, 9, 7}).contiguous(at::MemoryFormat::ChannelsLast));
    layers.expect_alike(torch::randn({batch, 9, 3, 7}).transpose(1, 2));
  }
}

TEST(Convolution2d, IsTorchsWhereThereAreFewPositions) {
  torch::manual_seed(3);
  Layers layers(Options(128, 128, 3).padding(1).bias(false));
  layers.expect_alike(torch::randn({8, 128, 2, 2}) / 8);
  layers.expect_alike(torch::randn({8, 128, 1, 3}) / 8);
}

// With an image a lane for whole batches, otherwise in between.
TEST(Convolution2d, IsTorchsForOddChannelsOneAfterAnother) {
  torch::manual_seed(5);
  Layers first(Options(3, 10, 5)), second(Options(10, 7, 3));
  for (const std::int64_t batch : {32, 7, 16, 48}) {
    const auto x = torch::randn({batch, 3, 12, 11});
    first.expect_alike(x);
    second.expect_alike(first.ours(x).detach());
    second.expect_alike(torch::randn({batch, 10, 8, 7}).contiguous(at::MemoryFormat::ChannelsLast));
  }
}

TEST(Convolution2d, LeavesTheRestToTorch) {
  torch::manual_seed(4);
  const auto x = torch::randn({2, 4, 8, 8});
  Layers(Options(4, 6, 3).groups(2)).expect_alike(x);
  Layers(Options(4, 6, 3).dilation(2)).expect_alike(x);
  Layers(Options(4, 6, 3).padding(torch::kSame)).expect_alike(x);
  Layers(Options(4, 6, 3).padding(1).padding_mode(torch::kReflect)).expect_alike(x);
  Layers plain(Options(4, 6, 3));
  plain.expect_alike(torch::empty({0, 4, 8, 8}));
  plain.expect_alike(torch::randn({4, 8, 8}));  // without a batch
  plain.ours->to(torch::kDouble);
  plain.plain->to(torch::kDouble);
  plain.expect_alike(x.to(torch::kDouble));
}

TEST(Convolution2d, RefusesWhatTorchRefuses) {
  Convolution2d layer(Options(4, 6, 3));
  EXPECT_THROW((void)layer(torch::randn({2, 5, 8, 8})), c10::Error);
  EXPECT_THROW((void)layer(torch::randn({2, 4, 2, 8})), c10::Error);
}

TEST(Convolution2d, GivesGradientsToWhatWantsThem) {
  Convolution2d layer(Options(2, 3, 3));
  layer->weight.requires_grad_(false);
  layer(torch::randn({2, 2, 5, 5})).sum().backward();  // an expanded gradient
  EXPECT_FALSE(layer->weight.grad().defined());
  EXPECT_TRUE(layer->bias.grad().allclose(torch::full({3}, 2. * 9)));
  const torch::NoGradGuard no_gradient;
  EXPECT_FALSE(layer(torch::randn({2, 2, 5, 5})).requires_grad());
}

TEST(Convolution2d, HasNoSecondDerivatives) {
  Convolution2d layer(Options(2, 3, 3));
  keep_taps_first(layer->weight);  // computed by a kernel of kolo's, with oneDNN or without
  const auto x = torch::randn({1, 2, 4, 4}).requires_grad_();
  const auto y = layer(x).sum();
  EXPECT_THROW((void)torch::autograd::grad({y}, {x}, {}, true, /*create_graph=*/true), Error);
}

TEST(PlainKernels, AreWantedWhileAGuardLives) {
  EXPECT_FALSE(PlainKernels::are_wanted());
  {
    const PlainKernels outer;
    { const PlainKernels inner; }
    EXPECT_TRUE(PlainKernels::are_wanted());
  }
  EXPECT_FALSE(PlainKernels::are_wanted());
}

// Somebody who wants the weight's gradient in memory of their own.
class Destination final : public torch::autograd::FunctionPostHook, public GradientDestination {
 public:
  explicit Destination(const Tensor& weight) : memory(torch::empty_like(weight.detach())) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    return outputs;
  }
  std::shared_ptr<void> take() override {
    return {std::make_shared<Tensor>(memory), memory.data_ptr()};
  }

  Tensor memory;
};

TEST(ConvolutionKernels, ComputeAWeightsGradientWhereItIsWanted) {
  torch::manual_seed(8);
  for (const bool taps_are_first : {false, true}) {
    if (!taps_are_first && convolution_implementation(3).empty()) continue;  // LibTorch computes it
    Convolution3d layer(torch::nn::Conv3dOptions(16, 32, 4).stride(2).padding(1));
    if (taps_are_first) keep_taps_first(layer->weight);
    const auto accumulator = torch::autograd::impl::grad_accumulator(layer->weight);
    auto hook = std::make_unique<Destination>(layer->weight);
    const Tensor memory = hook->memory;
    accumulator->add_post_hook(std::move(hook));
    const auto input = torch::randn({2, 16, 4, 4, 4});
    layer(input).square().sum().backward();
    EXPECT_EQ(layer->weight.grad().data_ptr(), memory.data_ptr()) << "neither moved nor copied";
    const Tensor made = layer->weight.grad().clone();
    layer->zero_grad();
    const PlainKernels plain;
    layer(input).square().sum().backward();
    expect_close(made, layer->weight.grad().to(torch::kDouble), "weight's gradient");
  }
}

}  // namespace
}  // namespace kolo
