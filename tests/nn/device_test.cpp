#include <algorithm>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "kolo/nn/loss.h"
#include "kolo/nn/metrics.h"
#include "support/small_models.h"
#include "support/test_devices.h"

// Networks, losses and metrics on a device's tensors, which host code that follows their pointers
// does not survive: as on the host, but for roundings.
namespace kolo::testing {
namespace {

torch::Device device() {
  return testing::test_device(1);
}

class ModelOnDevice : public ::testing::TestWithParam<SmallModel> {};

// The output, and the gradients of all parameters.
std::vector<torch::Tensor> results(Network& network, const torch::Tensor& input) {
  const auto output = network.forward(input);
  output.square().mean().backward();
  std::vector<torch::Tensor> all{output};
  for (const auto& parameter : network.parameters()) all.push_back(parameter.grad());
  return all;
}

// Compares everything in float64, which roundings change little. In float32, where the host has
// kolo's own kernels, only the output: a value at a ReLU's edge changes gradients by more than
// roundings.
TEST_P(ModelOnDevice, ComputesAsOnTheHost) {
  testing::refuse_tf32();
  const auto& [name, options] = GetParam();
  torch::manual_seed(1);
  const auto input = GetParam().input(2);
  for (const auto type : {torch::kFloat32, torch::kFloat64}) {
    std::vector<std::vector<torch::Tensor>> all;
    for (const auto& where : {torch::Device(torch::kCPU), device()}) {
      torch::manual_seed(2);
      const auto network = make_network(name, options);
      network->to(where, type);
      all.push_back(results(*network, input.to(where, type)));
    }
    ASSERT_EQ(all[0].size(), all[1].size());
    for (std::size_t i = 0; i < all[0].size(); ++i) {
      EXPECT_EQ(all[1][i].device(), device());
      if (i > 0 && type == torch::kFloat32) continue;
      const auto difference = (all[1][i].cpu() - all[0][i]).abs().max().item<double>();
      const auto largest = all[0][i].abs().max().item<double>();
      EXPECT_LE(difference, type == torch::kFloat32 ? 1e-3 * largest : 1e-9 * largest + 1e-12) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, ModelOnDevice, ::testing::ValuesIn(testing::small_models()),
                         name_of);

TEST(LossOnDevice, IsTheHosts) {
  const auto logits = torch::randn({6, 4}), fields = torch::rand({2, 2, 4, 4, 4});
  const auto classes = torch::tensor({0, 1, 2, 3, 0, 1});
  const auto on_device = [](const LossFunction& loss, const torch::Tensor& outputs,
                            const torch::Tensor& targets) {
    const auto expected = loss(outputs, targets).item<double>();
    EXPECT_NEAR(loss(outputs.to(device()), targets.to(device())).item<double>(), expected,
                1e-6 * expected);
  };
  on_device(make_cross_entropy(), logits, classes);
  on_device(make_cross_entropy(.1), logits, classes);
  on_device(make_cross_entropy(), logits, torch::softmax(logits, 1));
  on_device(make_binary_cross_entropy(.1), logits.select(1, 0), classes.remainder(2));
  on_device(make_l1(.5), fields, fields.flip({2}));
}

TEST(MetricsOnDevice, CountAsOnTheHost) {
  const auto logits = torch::randn({50, 7}), classes = torch::randint(7, {50});
  const auto there = logits.to(device()), targets = classes.to(device());
  EXPECT_TRUE(correct_samples(there, targets).cpu().equal(correct_samples(logits, classes)));
  EXPECT_TRUE(samples_in_top(there, targets, 3).cpu().equal(samples_in_top(logits, classes, 3)));
  EXPECT_TRUE(correct_samples(there.select(1, 0), targets.remainder(2))
                  .cpu()
                  .equal(correct_samples(logits.select(1, 0), classes.remainder(2))));
  ConfusionMatrix matrix(7), reference(7);
  matrix.add(there, targets);
  reference.add(logits, classes);
  EXPECT_TRUE(
      std::equal(matrix.counts().begin(), matrix.counts().end(), reference.counts().begin()));
  EXPECT_EQ(error_sums(there, there.flip({0})).r_squared(),
            error_sums(logits, logits.flip({0})).r_squared());
}

}  // namespace
}  // namespace kolo::testing
