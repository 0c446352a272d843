// Each network, trained on a device, is the one that the host trains.
#include <algorithm>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "kolo/comm/communicator.h"
#include "kolo/nn/loss.h"
#include "kolo/nn/models.h"
#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/training_step.h"
#include "support/small_models.h"
#include "support/test_devices.h"

namespace kolo::testing {
namespace {

struct Training {
  torch::Device device = torch::kCPU;
  torch::ScalarType type = torch::kFloat64;
  int steps = 1;
  std::int64_t samples = 2;
  double rate = 1e-3;
  // Relative error of each weight in the beginning.
  double disturbance = 0;
};

struct Outcome {
  std::vector<double> losses;
  torch::Tensor weights;  // on the host
};

torch::Tensor flat_weights_of(const Network& network) {
  std::vector<torch::Tensor> all;
  for (const auto& parameter : network.parameters())
    all.push_back(parameter.detach().to(torch::kCPU, torch::kFloat64).flatten());
  return torch::cat(all);
}

void disturb(Network& network, double fraction) {
  const torch::NoGradGuard no_gradient;
  for (auto& parameter : network.parameters())
    parameter.mul_(1 + fraction * torch::randn_like(parameter));
}

// On batches that are made anew for each step, the same for every device and type.
Outcome train(const SmallModel& model, const Training& training) {
  torch::manual_seed(1);
  const auto network = make_network(model.name, model.options);
  disturb(*network, training.disturbance);
  network->to(training.device, training.type);
  const bool is_field = model.options.classes == 0;
  const auto loss = is_field ? make_l1() : make_cross_entropy();
  const auto communicator = Communicator::solo(test_device_options());
  TrainingStep step(communicator, network, make_adam({}));
  torch::manual_seed(2);
  Outcome outcome;
  for (int number = 1; number <= training.steps; ++number) {
    const auto input = model.input(training.samples).to(training.device, training.type);
    std::vector<std::int64_t> shape{training.samples};
    shape.insert(shape.end(), model.options.output_shape.begin(), model.options.output_shape.end());
    const auto target = is_field ? torch::randn(shape).to(training.device, training.type)
                                 : torch::randint(model.options.classes, shape).to(training.device);
    step.begin(number);
    const auto value = loss(network->forward(input), target);
    step.backward(value, value.detach().to(torch::kFloat64).reshape({1}));
    outcome.losses.push_back(step.end(step.finish(training.rate)).sums.front());
  }
  outcome.weights = flat_weights_of(*network);
  return outcome;
}

class NetworkOnDevice : public ::testing::TestWithParam<SmallModel> {
 protected:
  void SetUp() override { refuse_tf32(); }
};

class NetworkInFloat32 : public NetworkOnDevice {};

// The simulated device computes on the host, which takes too long for the others.
std::vector<SmallModel> models() {
  auto all = small_models();
  if (!is_gpu_wanted())
    std::erase_if(all, [](const SmallModel& model) { return model.name.starts_with("resnet"); });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Catalogue, NetworkOnDevice, ::testing::ValuesIn(models()), name_of);
INSTANTIATE_TEST_SUITE_P(Catalogue, NetworkInFloat32, ::testing::ValuesIn(models()), name_of);

// In float64 roundings are too small to make another training of it. 50 layers enlarge them most,
// on a GPU about tenfold a step.
TEST_P(NetworkOnDevice, TrainsToTheHostsWeights) {
  Training training{.steps = !is_gpu_wanted() ? 2 : GetParam().name == "resnet50" ? 4 : 10};
  const auto here = train(GetParam(), training);
  training.device = test_device(0);
  const auto there = train(GetParam(), training);
  const double tolerance = GetParam().name == "resnet50" ? 1e-5 : 1e-9;
  for (std::size_t i = 0; i < here.losses.size(); ++i)
    EXPECT_NEAR(there.losses[i], here.losses[i], tolerance * here.losses[i]) << "step " << i + 1;
  const auto difference = (there.weights - here.weights).abs().max().item<double>();
  EXPECT_LE(difference, tolerance * here.weights.abs().max().item<double>());
}

double mean_difference(const Outcome& a, const Outcome& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.losses.size(); ++i) sum += std::abs(a.losses[i] - b.losses[i]);
  return sum / static_cast<double>(a.losses.size());
}

// In float32 they do: then a device is as far from the host as the host from itself, where weights
// were another rounding away.
TEST_P(NetworkInFloat32, StaysWithinTheSpreadOfTheHosts) {
  Training training{.type = torch::kFloat32, .steps = is_gpu_wanted() ? 100 : 10, .samples = 4};
  const auto here = train(GetParam(), training);
  double spread = 0;
  training.disturbance = 1e-7;  // about one rounding of float32
  for (int run = 0; run < 3; ++run) {
    // The disturbance comes from the generator after the weights: another one each time.
    training.disturbance *= -1.25;
    spread = std::max(spread, mean_difference(here, train(GetParam(), training)));
  }
  training.disturbance = 0;
  training.device = test_device(0);
  const auto there = train(GetParam(), training);
  const double rounding = std::numeric_limits<float>::epsilon() * here.losses.front();
  EXPECT_LE(mean_difference(here, there), std::max(3 * spread, rounding));
}

}  // namespace
}  // namespace kolo::testing
