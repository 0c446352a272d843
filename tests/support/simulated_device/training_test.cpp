#include <cstdint>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "support/simulated_device/device.h"

// What a training does with tensors of the simulated accelerator has the CPU's bits.
namespace kolo::testing::simulated {
namespace {

namespace nn = torch::nn;

// Sums are cut by the number of threads, which is not the same in autograd's threads for devices as
// in the host's unless it is set before they start.
[[maybe_unused]] const bool one_thread = (torch::set_num_threads(1), true);

nn::Sequential make_network(std::uint64_t seed = 1) {
  torch::manual_seed(seed);
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1)), nn::BatchNorm2d(8),
                        nn::ReLU(), nn::MaxPool2d(2),
                        nn::Conv2d(nn::Conv2dOptions(8, 8, 3).groups(2).bias(false)), nn::Flatten(),
                        nn::Dropout(.2), nn::Linear(8 * 2 * 2, 5));
}

struct Batch {
  torch::Tensor images = torch::randn({6, 3, 8, 8});
  torch::Tensor labels = torch::tensor({0, 1, 2, 3, 4, 0});

  [[nodiscard]] Batch to(const torch::Device& device) const {
    return {images.to(device), labels.to(device)};
  }
};

enum class Loss { cross_entropy, mse };

torch::Tensor loss_of(const torch::Tensor& outputs, const Batch& batch, Loss loss) {
  if (loss == Loss::cross_entropy) return nn::functional::cross_entropy(outputs, batch.labels);
  return nn::functional::mse_loss(outputs, torch::one_hot(batch.labels, 5).to(torch::kFloat32));
}

// Some steps of SGD; the losses.
std::vector<float> train(nn::Sequential& network, const Batch& batch, Loss loss) {
  torch::optim::SGD optimizer(network->parameters(),
                              torch::optim::SGDOptions(.1).momentum(.9).weight_decay(1e-3));
  std::vector<float> losses;
  for (int step = 0; step < 3; ++step) {
    torch::manual_seed(static_cast<std::uint64_t>(step));  // for dropout
    optimizer.zero_grad();
    const auto value = loss_of(network->forward(batch.images), batch, loss);
    value.backward();
    optimizer.step();
    losses.push_back(value.item<float>());
  }
  return losses;
}

void expect_same_tensors(const nn::Sequential& on_device, const nn::Sequential& on_host) {
  for (const auto& [name, host] : on_host->named_parameters().pairs()) {
    const auto tensor = on_device->named_parameters()[name];
    EXPECT_EQ(tensor.device().type(), kDeviceType) << name;
    EXPECT_EQ(tensor.grad().device().type(), kDeviceType) << name;
    EXPECT_TRUE(torch::equal(tensor.cpu(), host)) << name;
    EXPECT_TRUE(torch::equal(tensor.grad().cpu(), host.grad())) << name;
  }
  for (const auto& [name, host] : on_host->named_buffers().pairs()) {
    EXPECT_TRUE(torch::equal(on_device->named_buffers()[name].cpu(), host)) << name;
  }
}

void expect_same_training(Batch batch, Loss loss, torch::MemoryFormat format) {
  auto on_host = make_network();
  auto on_device = make_network();
  on_device->to(device(1));
  batch.images = batch.images.contiguous(format);
  for (auto* network : {&on_host, &on_device}) {
    for (auto& parameter : (*network)->parameters()) {
      if (parameter.dim() == 4) parameter.set_data(parameter.data().contiguous(format));
    }
  }
  EXPECT_EQ(train(on_device, batch.to(device(1)), loss), train(on_host, batch, loss));
  expect_same_tensors(on_device, on_host);
  on_host->eval();
  on_device->eval();
  EXPECT_TRUE(torch::equal(on_device->forward(batch.images.to(device(1))).cpu(),
                           on_host->forward(batch.images)));
}

TEST(SimulatedTraining, HasTheHostsBits) {
  expect_same_training({}, Loss::cross_entropy, torch::MemoryFormat::Contiguous);
  expect_same_training({}, Loss::mse, torch::MemoryFormat::Contiguous);
}

TEST(SimulatedTraining, HasTheHostsBitsChannelsLast) {
  expect_same_training({}, Loss::cross_entropy, torch::MemoryFormat::ChannelsLast);
}

TEST(SimulatedTraining, TransposesConvolutions) {
  nn::ConvTranspose2d on_host(nn::ConvTranspose2dOptions(2, 4, 3).stride(2).groups(2));
  nn::ConvTranspose2d on_device(nn::ConvTranspose2dOptions(2, 4, 3).stride(2).groups(2));
  on_device->weight.set_data(on_host->weight.to(device()));
  on_device->bias.set_data(on_host->bias.to(device()));
  const auto images = torch::randn({2, 2, 4, 4});
  on_host->forward(images).square().sum().backward();
  on_device->forward(images.to(device())).square().sum().backward();
  EXPECT_TRUE(torch::equal(on_device->weight.grad().cpu(), on_host->weight.grad()));
  EXPECT_TRUE(torch::equal(on_device->bias.grad().cpu(), on_host->bias.grad()));
}

// As a parameter arena does: parameters and gradients are parts of two flat buffers.
TEST(SimulatedTraining, WorksInFlatBuffers) {
  auto on_host = make_network();
  auto on_device = make_network();
  on_device->to(device());
  std::int64_t elements = 0;
  for (const auto& parameter : on_host->parameters()) elements += parameter.numel();
  const auto options = torch::device(device());
  auto values = torch::zeros({elements}, options), gradients = torch::zeros({elements}, options);
  std::int64_t offset = 0;
  for (auto& parameter : on_device->parameters()) {
    const auto part = [&](const torch::Tensor& buffer) {
      return buffer.narrow(0, offset, parameter.numel()).view(parameter.sizes());
    };
    const auto value = part(values);
    value.copy_(parameter.data());
    parameter.set_data(value);
    parameter.mutable_grad() = part(gradients);
    offset += parameter.numel();
  }
  const Batch batch;
  for (const int pass : {1, 2}) {
    for (auto* network : {&on_host, &on_device}) {
      torch::manual_seed(static_cast<std::uint64_t>(pass));
      const auto own = network == &on_host ? batch : batch.to(device());
      loss_of((*network)->forward(own.images), own, Loss::cross_entropy).backward();
    }
  }
  expect_same_tensors(on_device, on_host);
  EXPECT_TRUE(gradients.is_alias_of(on_device->parameters().front().grad()));
  values.sub_(gradients, .1);
  for (auto& parameter : on_host->parameters()) parameter.data().sub_(parameter.grad(), .1);
  expect_same_tensors(on_device, on_host);
}

TEST(SimulatedTraining, CallsHooksWithDeviceTensors) {
  const auto weight = torch::ones({3}, torch::device(device(1)).requires_grad(true));
  int calls = 0;
  weight.register_hook([&](const torch::Tensor& gradient) {
    ++calls;
    EXPECT_EQ(gradient.device(), device(1));
    return gradient * 2;
  });
  (weight * weight).sum().backward();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(torch::equal(weight.grad().cpu(), torch::full({3}, 4.F)));
}

TEST(SimulatedTraining, GoesThroughSeveralDevices) {
  const auto weight = torch::full({2}, 3.F, torch::device(device(0)).requires_grad(true));
  ((weight * 2).to(device(1)) * torch::ones({2}, torch::device(device(1)))).cpu().sum().backward();
  EXPECT_EQ(weight.grad().device(), device(0));
  EXPECT_TRUE(torch::equal(weight.grad().cpu(), torch::full({2}, 2.F)));
}

// Ranks as threads, one network each.
TEST(SimulatedTraining, GoesOnInSeveralThreads) {
  constexpr int kRanks = 3;
  const Batch batch;
  std::vector<nn::Sequential> on_host, on_device;
  for (int rank = 0; rank < kRanks; ++rank) {
    on_host.push_back(make_network(static_cast<std::uint64_t>(rank)));
    on_device.push_back(make_network(static_cast<std::uint64_t>(rank)));
    on_device.back()->to(device(rank % kDevices));
    on_host.back()->eval();  // without dropout: threads share its generator
    on_device.back()->eval();
  }
  std::vector<std::vector<float>> losses(kRanks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto own = batch.to(device(static_cast<int>(rank) % kDevices));
      losses[rank] = train(on_device[rank], own, Loss::cross_entropy);
    });
  }
  for (auto& thread : threads) thread.join();
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(losses[rank], train(on_host[rank], batch, Loss::cross_entropy)) << rank;
    expect_same_tensors(on_device[rank], on_host[rank]);
  }
}

}  // namespace
}  // namespace kolo::testing::simulated
