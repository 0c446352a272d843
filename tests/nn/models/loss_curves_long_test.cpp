// A hundred steps of networks with kolo's kernels beside as many with LibTorch's operators.
#include <array>

#include <gmock/gmock.h>

#include "nn/models/compared_training.h"

namespace kolo::testing {
namespace {

class HundredSteps : public ::testing::TestWithParam<Setting> {};

// Rounding grows from step to step where batches are normalized, and ReLUs' corners add to it:
// there curves part by some hundredths for other roundings, as between versions of LibTorch. So
// they are compared by means over ten steps, and less closely.
TEST_P(HundredSteps, LossCurvesOverlap) {
  Training kernels(GetParam(), Operators::kernels), plain(GetParam(), Operators::plain);
  std::array<double, 10> found{}, expected{};
  for (std::int64_t step = 0; step < 100; ++step) {
    const auto tenth = static_cast<std::size_t>(step / 10);
    found[tenth] += kernels.backward(step) / 10;
    expected[tenth] += plain.backward(step) / 10;
    for (Training* const training : {&kernels, &plain}) training->update(GetParam().rate);
  }
  for (std::size_t tenth = 0; tenth < 10; ++tenth) {
    EXPECT_NEAR(found[tenth], expected[tenth], GetParam().tolerance * expected.front())
        << "steps from " << 10 * tenth;
  }
  EXPECT_LT(expected.back(), expected.front());  // something was learnt
}

INSTANTIATE_TEST_SUITE_P(
    Networks, HundredSteps,
    ::testing::Values(Setting{"mnist_net", {1, 28, 28}}, Setting{"mnist_cnn", {1, 28, 28}},
                      Setting{"cnn", {3, 32, 32}},
                      Setting{"resnet_small", {3, 32, 32}, {}, 8, 0, 0, .001, .05},
                      Setting{"unet3d", {4, 16, 16, 16}, {5, 16, 16, 16}, 2, 4, 16}),
    setting_name);

}  // namespace
}  // namespace kolo::testing
