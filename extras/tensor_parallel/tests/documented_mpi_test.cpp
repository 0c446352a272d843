// Runs the loop of README.md as it stands there. Ranks that are threads share LibTorch's generator,
// so it is for processes.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "include.inc"
#include "support/rank_test.h"

namespace kolo::testing {

namespace {

using torch::optim::SGD;
using torch::optim::SGDOptions;

RANK_TEST(Documented, TheLoopLearnsAlikeOnAllRanks) {
  const auto& world = communicator;
  const SGDOptions options(.05);
  const std::int64_t features = 4;
  const int steps = 300;
  torch::manual_seed(2);
  const auto inputs = torch::rand({16, features}), targets = inputs.flip(1);
#include "tensor.inc"
  const double after = torch::mse_loss(network->forward(inputs), targets).item<double>();
  EXPECT_EQ(all_reduce_value(world, after, ReduceOp::min),
            all_reduce_value(world, after, ReduceOp::max));
  EXPECT_EQ(whole["0.weight"].sizes(), torch::IntArrayRef({4 * features, features}));
  EXPECT_LT(after, .05);
}

}  // namespace

}  // namespace kolo::testing
