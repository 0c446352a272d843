// Kernels of convolutions by measurement: what is found, and that networks compute by it.
#include "kolo/nn/kernel_choices.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/conv.h>

#include "kolo/base/error.h"
#include "kolo/nn/convolution.h"
#include "kolo/nn/models.h"
#include "nn/kernels/convolution_kernel.h"
#include "support/errors.h"

namespace kolo {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class KernelChoicesTest : public ::testing::Test {
 protected:
  KernelChoicesTest() { torch::manual_seed(1); }

  std::shared_ptr<Network> network_ =
      make_network("cnn", {.input_shape = {3, 16, 16}, .classes = 4});
  const std::vector<std::int64_t> batch_ = {4, 3, 16, 16};
};

TEST_F(KernelChoicesTest, TheFastestOfThoseThatWereTried) {
  const auto choices = measure_kernels(*network_, batch_, Precision::fp32);
  if (convolution_implementation(2).empty()) return;  // LibTorch computes, nothing to choose from
  EXPECT_FALSE(choices.empty());
  for (const auto& [convolution, choice] : choices) {
    EXPECT_THAT(convolution, AnyOf(HasSubstr("float32, 1 thread"), HasSubstr(" threads")));
    ASSERT_TRUE(choice.milliseconds.contains(choice.kernel)) << choice.kernel;
    for (const auto& [kernel, milliseconds] : choice.milliseconds) {
      EXPECT_TRUE(find_named<KernelKind>(kernel)) << kernel;
      EXPECT_GT(milliseconds, 0);
      // The usual one stays unless another is clearly faster.
      EXPECT_LE(.95 * choice.milliseconds.at(choice.kernel), milliseconds) << kernel;
    }
  }
}

TEST_F(KernelChoicesTest, WhatIsKnownIsNotTriedAgain) {
  auto known = measure_kernels(*network_, batch_, Precision::fp32);
  for (auto& [convolution, choice] : known) choice = {"taps", {{"taps", 1e9}}};
  auto more = known;
  more["another convolution"] = {"direct", {{"direct", 1.}}};
  const auto nothing = [](std::size_t, std::size_t) { ADD_FAILURE() << "something is tried"; };
  EXPECT_EQ(measure_kernels(*network_, batch_, Precision::fp32, more, nothing), known);
}

TEST_F(KernelChoicesTest, TryNoMoreWhenTheyAreToStop) {
  const auto all = measure_kernels(*network_, batch_, Precision::fp32);
  if (all.empty()) return;
  std::size_t asked = 0, wanted = 0, done = 0;
  const auto measure = [&](std::size_t stops_at) {
    asked = 0;
    return measure_kernels(
        *network_, batch_, Precision::fp32, {},
        [&](std::size_t so_far, std::size_t count) { done = so_far, wanted = count; },
        [&] { return ++asked > stops_at; });
  };
  EXPECT_TRUE(measure(0).empty());
  EXPECT_EQ(wanted, all.size());
  EXPECT_EQ(asked, 1U) << "it is not asked again";
  const auto of_first = all.begin()->second.milliseconds.size();
  EXPECT_TRUE(measure(of_first - 1).empty()) << "amid a convolution nothing is known of it";
  const auto first = measure(of_first);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_TRUE(all.contains(first.begin()->first));
  EXPECT_EQ(done, 1U);
}

TEST_F(KernelChoicesTest, LeaveTheNetworkAsItWas) {
  const auto resnet = make_network("resnet_small", {.input_shape = {3, 16, 16}, .classes = 4});
  resnet->train();
  resnet->children()[0]->eval();
  const auto modes = [&] {
    std::vector<bool> found;
    for (const auto& module : resnet->modules()) found.push_back(module->is_training());
    return found;
  };
  const auto before = modes();
  std::vector<torch::Tensor> buffers;
  for (const auto& buffer : resnet->buffers()) buffers.push_back(buffer.clone());
  (void)measure_kernels(*resnet, batch_, Precision::fp32);
  EXPECT_EQ(modes(), before);
  for (std::size_t i = 0; i < buffers.size(); ++i)
    EXPECT_TRUE(torch::equal(resnet->buffers()[i], buffers[i]));
  for (const auto& parameter : resnet->parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST_F(KernelChoicesTest, LayersComputeByThem) {
  Convolution2d layer(torch::nn::Conv2dOptions(32, 32, 3).padding(1));
  const auto x = torch::randn({4, 32, 8, 8});
  const auto usual = layer(x);
  const ConvolutionGeometry geometry{.batch = 4,
                                     .inputs = 32,
                                     .outputs = 32,
                                     .size = {8, 8},
                                     .kernel = {3, 3},
                                     .stride = {1, 1},
                                     .padding = {1, 1}};
  const auto by = [&](const std::string& kernel) {
    const UseKernels use(std::make_shared<const KernelChoices>(
        KernelChoices{{text_of(geometry), {kernel, {{kernel, 1.}}}}}));
    return layer(x);
  };
  // Sums in another order have other last digits.
  const auto taps = by("taps");
  EXPECT_TRUE(taps.allclose(usual, 1e-4, 1e-5));
  EXPECT_FALSE(torch::equal(taps, usual));
  EXPECT_TRUE(torch::equal(by("of another version"), usual));
  EXPECT_TRUE(torch::equal(layer(x), usual)) << "after the guard as before it";
}

TEST_F(KernelChoicesTest, AsJsonAndBack) {
  const KernelChoices choices = {{"a", {"winograd", {{"winograd", 1.25}, {"direct", 2.5}}}},
                                 {"b", {"direct", {{"direct", .5}}}}};
  EXPECT_EQ(kernel_choices_from_json(to_json(choices)), choices);
  EXPECT_EQ(kernel_choices_from_json(to_json({})), KernelChoices());
  for (const auto* const text : {"", "{", R"({"a": 3})", R"({"a": {"kernel": "direct"}})"})
    EXPECT_THROW((void)kernel_choices_from_json(text), Error) << text;
}

}  // namespace
}  // namespace kolo
