// Training on a device gives the same numbers as on the host. The simulated one has memory that
// no host code can touch.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "kolo/base/error.h"
#include "kolo/comm/threads.h"
#include "kolo/parallel/checks.h"
#include "kolo/parallel/distributed_optimizer.h"
#include "kolo/parallel/gradient_hook.h"
#include "kolo/parallel/gradient_norm.h"
#include "kolo/parallel/sharded_optimizer.h"
#include "kolo/parallel/sync_batch_norm.h"
#include "kolo/parallel/tensor_collectives.h"
#include "kolo/parallel/training_step.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/test_devices.h"

namespace kolo::testing {
namespace {

namespace nn = torch::nn;

constexpr int ranks = 2;
constexpr int steps = 3;

void on_devices(const std::function<void(const Communicator&)>& body) {
  run_as_threads(ranks, body, {.devices = test_device_options(512)});
}

// No bias before the batch norm: its gradient is 0 but for rounding, which Adam makes steps of.
nn::Sequential make_network() {
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1).bias(false)),
                        nn::BatchNorm2d(8), nn::ReLU(), nn::Flatten(), nn::Linear(8 * 6 * 6, 5));
}

struct Batch {
  torch::Tensor images, labels;

  [[nodiscard]] Batch to(const torch::Device& device) const {
    return {images.to(device), labels.to(device)};
  }
};

// Trains a rank's network with its batch; returns values to compare besides the parameters.
using Training =
    std::function<std::vector<double>(const Communicator&, nn::Sequential&, const Batch&)>;

struct Outcome {
  std::vector<double> values;
  std::vector<torch::Tensor> state;  // parameters and buffers, on the host
};

torch::Device on_host(int /*rank*/) {
  return torch::kCPU;
}

// Returns rank 0's outcome. Networks and batches are made one after another, since the ranks, which
// are threads, share the generator.
Outcome outcome_on(const std::function<torch::Device(int rank)>& device, const Training& training) {
  torch::manual_seed(1);
  std::vector<nn::Sequential> networks;
  std::vector<Batch> batches;
  for (int rank = 0; rank < ranks; ++rank) {
    networks.push_back(make_network());
    networks.back()->to(device(rank));
    const Batch batch{torch::randn({4, 3, 6, 6}), torch::randint(0, 5, {4})};
    batches.push_back(batch.to(device(rank)));
  }
  Outcome outcome;
  on_devices([&](const Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    auto values = training(communicator, networks[rank], batches[rank]);
    if (rank == 0) outcome.values = std::move(values);
  });
  const torch::NoGradGuard no_gradient;
  for (const auto& tensor : networks[0]->parameters()) outcome.state.push_back(tensor.cpu());
  for (const auto& tensor : networks[0]->buffers()) outcome.state.push_back(tensor.cpu());
  return outcome;
}

torch::Tensor loss_of(nn::Sequential& network, const Batch& batch) {
  return nn::functional::cross_entropy(network->forward(batch.images), batch.labels);
}

// A GPU adds up in another order than the host; the simulated device has its bits.
void expect_close(double tolerance, const Training& training) {
  if (is_gpu_wanted()) tolerance = std::max(tolerance, 1e-4);
  const auto here = outcome_on(on_host, training);
  const auto there = outcome_on(test_device, training);
  ASSERT_EQ(here.values.size(), there.values.size());
  for (std::size_t i = 0; i < here.values.size(); ++i)
    EXPECT_NEAR(here.values[i], there.values[i], tolerance) << "value " << i;
  ASSERT_EQ(here.state.size(), there.state.size());
  for (std::size_t i = 0; i < here.state.size(); ++i)
    EXPECT_TRUE(torch::allclose(here.state[i], there.state[i], tolerance, tolerance))
        << "tensor " << i << "\n"
        << here.state[i] << "\n"
        << there.state[i];
}

void expect_the_same(const Training& training) {
  expect_close(0, training);
}

// Steps of a TrainingStep with these options.
Training training_steps(const StepSettings& options,
                        const std::shared_ptr<const FlatOptimizer>& optimizer) {
  return [=](const Communicator& communicator, nn::Sequential& network, const Batch& batch) {
    TrainingStep step(communicator, network.ptr(), optimizer, options);
    std::vector<double> losses;
    for (int number = 1; number <= steps; ++number) {
      step.begin(number);
      const auto loss = loss_of(network, batch);
      step.backward(loss, loss.detach().to(torch::kDouble).reshape({1}));
      losses.push_back(step.end(step.finish(0.05)).sums.front());
    }
    return losses;
  };
}

TEST(OnADevice, TrainingStepsAreThoseOfTheHost) {
  expect_the_same(training_steps({.buckets = {.first_bytes = 512, .bytes = 2048}},
                                 make_adam({.weight_decay = .01})));
}

TEST(OnADevice, SoAreLayerwiseOnes) {
  expect_the_same(training_steps({}, make_lamb({})));
}

TEST(OnADevice, SoAreThoseOfAverages) {
  expect_close(1e-6,
               [](const Communicator& communicator, nn::Sequential& network, const Batch& batch) {
                 TrainingStep step(communicator, network.ptr(), make_schedule_free_adamw({}));
                 for (int number = 1; number <= steps; ++number) {
                   step.begin(number);
                   step.backward(loss_of(network, batch));
                   (void)step.end(step.finish(0.05));
                 }
                 step.to_evaluation();
                 return std::vector<double>{loss_of(network, batch).item<double>()};
               });
}

TEST(OnADevice, ClippingAndLossScaleToo) {
  expect_close(1e-6, training_steps({.clip_norm = .1}, make_sgd({.momentum = .9})));
  expect_the_same(training_steps({.loss_scale = LossScaleOptions{.initial = 1024}},
                                 make_sgd({.momentum = .9})));
  expect_the_same(training_steps({.non_finite = NonFiniteStep::skip}, make_sgd({})));
}

TEST(OnADevice, StepsThatAreNotFiniteAreLeftOut) {
  const Training training = [](const Communicator& communicator, nn::Sequential& network,
                               const Batch& batch) {
    TrainingStep step(communicator, network.ptr(), make_sgd({}),
                      {.non_finite = NonFiniteStep::skip});
    std::vector<double> made;
    for (int number = 1; number <= steps; ++number) {
      const bool is_bad = number == 2 && communicator.rank() == 1;
      step.begin(number);
      step.backward(loss_of(network, batch) * (is_bad ? NAN : 1.));
      made.push_back(step.end(step.finish(0.05)).is_made ? 1 : 0);
    }
    return made;
  };
  expect_the_same(training);
  EXPECT_THAT(outcome_on(test_device, training).values, ::testing::ElementsAre(1, 0, 1));
}

TEST(OnADevice, OptimizersOfLibTorchAreDistributed) {
  for (const bool is_compressed : {false, true}) {
    expect_the_same(
        [&](const Communicator& communicator, nn::Sequential& network, const Batch& batch) {
          DistributedOptimizer optimizer(
              communicator, *network,
              std::make_unique<torch::optim::SGD>(network->parameters(),
                                                  torch::optim::SGDOptions(.1).momentum(.9)),
              {.reducer = {.hook = is_compressed ? bfloat16_compression() : nullptr}});
          for (int step = 0; step < steps; ++step) {
            optimizer.zero_grad();
            if (!is_compressed) {  // gradients add up over several passes
              const auto quiet = optimizer.no_sync();
              loss_of(network, batch).backward();
            }
            loss_of(network, batch).backward();
            if (!is_compressed) loss_of(network, batch).backward();
            optimizer.step();
          }
          return std::vector<double>();
        });
  }
}

TEST(OnADevice, ShardedOptimizersToo) {
  for (const bool is_adam : {false, true}) {
    expect_close(
        1e-6, [&](const Communicator& communicator, nn::Sequential& network, const Batch& batch) {
          ShardedOptimizer optimizer(communicator, *network,
                                     is_adam ? make_adam({}) : make_sgd({.momentum = .9}),
                                     {.buckets = {.first_bytes = 512, .bytes = 2048}});
          for (int step = 0; step < steps; ++step) {
            optimizer.zero_grad();
            loss_of(network, batch).backward();
            if (step == 1) (void)optimizer.clip_gradients(.1);
            optimizer.step();
          }
          std::vector<double> state;
          for (const auto& item : optimizer.gather_state())
            state.push_back(item.tensor.cpu().sum().item<double>());
          return state;
        });
  }
}

TEST(OnADevice, GradientsOfOneDeviceAreClippedTogether) {
  auto here = torch::ones({3}), there = torch::ones({2}).to(test_device(0));
  for (auto* each : {&here, &there}) each->mutable_grad() = torch::ones_like(*each);
  EXPECT_EQ(message_of<Error>([&] {
              (void)clip_gradient_norm({here, there}, .5);
            }),
            "parallel: can't clip gradients on cpu and " + test_device(0).str() +
                " together; give those of one device");
  EXPECT_NEAR(clip_gradient_norm({there}, .5), std::sqrt(2.), 1e-12);
  EXPECT_NEAR(there.grad().cpu().norm().item<double>(), .5, 1e-6);
  EXPECT_TRUE(here.grad().equal(torch::ones({3})));
}

TEST(OnADevice, PowerSgdRefuses) {
  on_devices([](const Communicator& communicator) {
    auto network = make_network();
    network->to(test_device(communicator.rank()));
    DistributedOptimizer optimizer(
        communicator, *network,
        std::make_unique<torch::optim::SGD>(network->parameters(), torch::optim::SGDOptions(.1)),
        {.reducer = {.hook = power_sgd()}});
    const auto images = torch::ones({4, 3, 6, 6}).to(test_device(communicator.rank()));
    network->forward(images).sum().backward();
    EXPECT_TRUE(says(message_of<Error>([&] { optimizer.step(); }),
                     {"PowerSGD takes gradients in the host's memory"}));
  });
}

TEST(OnADevice, ReplicasAreCompared) {
  expect_the_same(
      [&](const Communicator& communicator, nn::Sequential& network, const Batch& batch) {
        auto losses = training_steps({}, make_adam({}))(communicator, network, batch);
        const ReplicaCheck check(communicator, ParameterArena(communicator, *network), 1);
        check.compare("now");
        const torch::NoGradGuard no_gradient;
        if (communicator.rank() == 1) network->parameters()[1].add_(1);
        EXPECT_TRUE(says(message_of<Error>([&] { check.compare("after that"); }), {"1.weight"}));
        return losses;
      });
}

TEST(OnADevice, CollectivesTakeItsTensors) {
  expect_close(
      1e-3, [&](const Communicator& communicator, nn::Sequential& /*network*/, const Batch& batch) {
        const auto sum = batch.images.clone();
        all_reduce(communicator, sum);
        const auto all = all_gather(communicator, batch.images);
        broadcast(communicator, batch.labels, 1);
        return std::vector<double>{sum.sum().item<double>(), all.square().sum().item<double>(),
                                   batch.labels.sum().item<double>()};
      });
}

TEST(OnADevice, BatchNormOverAllRanks) {
  if (is_gpu_wanted())
    GTEST_SKIP() << "ranks that are threads can't share a GPU in backward; scripts/test-gpu "
                    "tries it with processes";
  expect_close(
      1e-5, [&](const Communicator& communicator, nn::Sequential& network, const Batch& batch) {
        convert_sync_batch_norm(communicator, *network);
        return training_steps({}, make_sgd({.momentum = .9}))(communicator, network, batch);
      });
}

TEST(OnADevice, ParametersAreAllOnOne) {
  on_devices([](const Communicator& communicator) {
    auto network = make_network();
    network->to(test_device(0));
    network[4]->to(torch::kCPU);
    EXPECT_TRUE(says(message_of<Error>([&] { const ParameterArena arena(communicator, *network); }),
                     {"parameter 4.weight is on cpu, 0.weight on " + test_device(0).str()}));
  });
}

}  // namespace
}  // namespace kolo::testing
