#include "kolo/parallel.h"

#include <gmock/gmock.h>

namespace kolo {
namespace {

// Uses something of each part of the library through the one header.
TEST(UmbrellaHeader, IsEnoughForATrainingStep) {
  run_as_threads(2, [](const Communicator& communicator) {
    torch::nn::Sequential network(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4));
    EXPECT_EQ(convert_sync_batch_norm(communicator, *network).size(), 1U);
    torch::optim::SGD sgd(network->parameters(), .1);
    broadcast_state(communicator, *network, sgd);
    DistributedOptimizer optimizer(communicator, *network, std::ref(sgd));
    optimizer.zero_grad();
    network->forward(torch::full({2, 3}, communicator.rank() + 1.)).sum().backward();
    optimizer.step();
    for (const auto& parameter : network->parameters()) {
      auto highest = parameter.detach().clone();
      all_reduce(communicator, highest, ReduceOp::max);
      EXPECT_TRUE(highest.equal(parameter));
    }
  });
}

}  // namespace
}  // namespace kolo
