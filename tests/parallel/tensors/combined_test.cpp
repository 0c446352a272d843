
#include <vector>

#include <gmock/gmock.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "kolo/parallel/distributed_optimizer.h"
#include "kolo/parallel/gradient_hook.h"
#include "kolo/parallel/sync_batch_norm.h"
#include "parallel/gradients/reference_gradients.h"
#include "support/rank_test.h"

namespace kolo::testing {

namespace {

torch::nn::Sequential normalised_network(torch::ScalarType type) {
  namespace nn = torch::nn;
  nn::Sequential network(nn::Linear(nn::LinearOptions(5, 8).bias(false)), nn::BatchNorm1d(8),
                         nn::Tanh(), nn::Linear(nn::LinearOptions(8, 6).bias(false)),
                         nn::BatchNorm1d(6), nn::Linear(6, 3));
  network->to(type);
  const torch::NoGradGuard no_gradient;
  double frequency = .7;
  for (auto& parameter : network->parameters()) {
    const auto values = torch::sin(torch::arange(parameter.numel(), torch::kDouble) * frequency++);
    parameter.copy_(values.view(parameter.sizes()) * .5 + (parameter.dim() == 1 ? 1 : 0));
  }
  return network;
}

template <typename Network>
torch::Tensor loss_of(Network& network, const torch::Tensor& input) {
  return network->forward(input).square().sum(1).mean();
}

// Networks with synchronized batch norms train like one on all ranks' batches.
void train_normalised(const Communicator& communicator, torch::ScalarType type, double tolerance) {
  auto network = normalised_network(type), reference = normalised_network(type);
  EXPECT_EQ(convert_sync_batch_norm(communicator, *network).size(), 2U);
  const auto options = torch::optim::SGDOptions(.05).momentum(.9);
  torch::optim::SGD peer(reference->parameters(), options);
  DistributedOptimizerOptions distributed;
  distributed.reducer.buckets = one_each;
  DistributedOptimizer optimizer(communicator, *network,
                                 torch::optim::SGD(network->parameters(), options), distributed);
  for (std::int64_t step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    loss_of(network, samples_of(communicator.rank(), step, type)).backward();
    optimizer.step();
    std::vector<torch::Tensor> whole;
    for (int rank = 0; rank < communicator.size(); ++rank)
      whole.push_back(samples_of(rank, step, type));
    peer.zero_grad();
    loss_of(reference, torch::cat(whole)).backward();
    peer.step();
  }
  for (const auto& item : reference->named_parameters()) {
    const torch::Tensor value = network->named_parameters()[item.key()];
    EXPECT_TRUE(value.allclose(item.value(), tolerance, tolerance)) << item.key();
  }
  for (const auto& item : reference->named_buffers()) {
    const torch::Tensor value = network->named_buffers()[item.key()];
    EXPECT_TRUE(value.allclose(item.value(), tolerance, tolerance)) << item.key();
  }
}

RANK_TEST(Combined, NormalisedNetworksTrainAsOnTheUnion) {
  train_normalised(communicator, torch::kDouble, 1e-9);
  train_normalised(communicator, torch::kFloat, 1e-5);
}

// PowerSGD with as high a rank as the gradients have is an average, whatever bucket they are in.
RANK_TEST(Combined, PowerSgdOfFullRankAverages) {
  for (const BucketLimits& limits : {one_each, BucketLimits{}}) {
    SmallNetwork network, reference;
    network.to(torch::kDouble);
    reference.to(torch::kDouble);
    const auto options = torch::optim::SGDOptions(.1).momentum(.9);
    torch::optim::SGD peer(reference.parameters(), options);
    DistributedOptimizerOptions distributed;
    distributed.reducer.buckets = limits;
    distributed.reducer.hook =
        power_sgd({.rank = 50, .start_step = 0, .minimum_compression_rate = 0});
    DistributedOptimizer optimizer(communicator, network,
                                   torch::optim::SGD(network.parameters(), options), distributed);
    for (std::int64_t step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      mean_loss(network, samples_of(communicator.rank(), step, torch::kDouble)).backward();
      optimizer.step();
      std::vector<torch::Tensor> whole;
      for (int rank = 0; rank < communicator.size(); ++rank)
        whole.push_back(samples_of(rank, step, torch::kDouble));
      peer.zero_grad();
      mean_loss(reference, torch::cat(whole)).backward();
      peer.step();
    }
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(network.parameters()[i].allclose(reference.parameters()[i], 1e-6, 1e-6))
          << "parameter " << i;
    }
    const auto buckets = optimizer.reducer().arena()->buckets();
    EXPECT_EQ(buckets, limits.bytes == one_each.bytes ? 4U : 1U);
    EXPECT_EQ(optimizer.reducer().statistics().hook_bytes > 0, communicator.size() > 1);
  }
}

}  // namespace

}  // namespace kolo::testing
