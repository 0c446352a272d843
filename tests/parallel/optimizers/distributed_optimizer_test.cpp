#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>
#include <torch/optim/lbfgs.h>

#include "kolo/base/error.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/broadcast_state.h"
#include "parallel/optimizers/sgd_of.h"
#include "parallel/small_network.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

torch::Tensor loss_of_all(SmallNetwork& network, int ranks, std::int64_t step) {
  std::vector<torch::Tensor> inputs;
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(samples_of(rank, step, torch::kDouble));
  return mean_loss(network, torch::cat(inputs));
}

torch::optim::SGD sgd_with_momentum(const SmallNetwork& network) {
  return torch::optim::SGD(network.parameters(), torch::optim::SGDOptions(.1).momentum(.9));
}

void compare_training(const Communicator& communicator,
                      const DistributedOptimizerOptions& options) {
  SmallNetwork network, reference;
  network.to(torch::kDouble);
  reference.to(torch::kDouble);
  auto peer = sgd_with_momentum(reference);
  DistributedOptimizer optimizer(communicator, network, sgd_with_momentum(network), options);
  for (std::int64_t step = 0; step < 6; ++step) {
    optimizer.zero_grad();
    mean_loss(network, samples_of(communicator.rank(), step, torch::kDouble)).backward();
    optimizer.step();
    reference.zero_grad(true);
    loss_of_all(reference, communicator.size(), step).backward();
    if (options.clip_norm) {
      const double norm =
          torch::nn::utils::clip_grad_norm_(reference.parameters(), *options.clip_norm);
      EXPECT_NEAR(optimizer.gradient_norm().value(), norm, 1e-9);
    }
    peer.step();
  }
  expect_parameters(network, reference.parameters(), 1e-9, 1e-9);
}

RANK_TEST(DistributedOptimizer, AnyOptimizerStepsWithAverages) {
  DistributedOptimizerOptions options;
  options.reducer.buckets = one_each;
  compare_training(communicator, options);
  options.clip_norm = .1;
  compare_training(communicator, options);
}

RANK_TEST(DistributedOptimizer, OptimizersAreReferredToOrOwned) {
  SmallNetwork network;
  torch::optim::SGD sgd(network.parameters(), .1);
  DistributedOptimizer refers(communicator, network, std::ref(sgd));
  EXPECT_EQ(&refers.inner(), &sgd);
  SmallNetwork other;
  DistributedOptimizer owns(communicator, other,
                            std::make_unique<torch::optim::Adam>(other.parameters()));
  EXPECT_EQ(owns.inner().param_groups().size(), 1U);
}

RANK_TEST(DistributedOptimizer, AnOptimizerOfOtherParametersIsNamed) {
  SmallNetwork network, other;
  EXPECT_TRUE(says(message_of<Error>([&] {
                     DistributedOptimizer(communicator, network,
                                          torch::optim::SGD(network.first->parameters(), .1));
                   }),
                   {"it lacks second.weight, it lacks second.bias"}));
  auto parameters = network.parameters();
  parameters.push_back(other.first->bias);
  EXPECT_TRUE(says(message_of<Error>([&] {
                     DistributedOptimizer(communicator, network, torch::optim::SGD(parameters, .1));
                   }),
                   {"a tensor of [7] in its group 0 is not the module's"}));
}

RANK_TEST(DistributedOptimizer, ClosuresSeeTheAveragedLoss) {
  SmallNetwork network, reference;
  network.to(torch::kDouble);
  reference.to(torch::kDouble);
  const auto options = torch::optim::LBFGSOptions(.1).max_iter(4);
  DistributedOptimizer optimizer(communicator, network,
                                 torch::optim::LBFGS(network.parameters(), options));
  torch::optim::LBFGS peer(reference.parameters(), options);
  for (std::int64_t step = 0; step < 2; ++step) {
    const torch::Tensor loss = optimizer.step([&] {
      optimizer.zero_grad();
      const torch::Tensor mine =
          mean_loss(network, samples_of(communicator.rank(), step, torch::kDouble));
      mine.backward();
      return mine;
    });
    const torch::Tensor expected = peer.step([&] {
      reference.zero_grad(true);
      const torch::Tensor whole = loss_of_all(reference, communicator.size(), step);
      whole.backward();
      return whole;
    });
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-8);
  }
  expect_parameters(network, reference.parameters(), 1e-6, 1e-6);
}

void sparse_and_dense_training_are_equal(const Communicator& communicator,
                                         std::optional<double> maximum_norm) {
  Words sparse(true), dense(false), named(false);
  DistributedOptimizerOptions options, with_name;
  options.clip_norm = with_name.clip_norm = maximum_norm;
  with_name.reducer.sparse_parameters = {"table.weight"};
  auto of_sparse = distributed_sgd(communicator, sparse, .1, options);
  auto of_dense = distributed_sgd(communicator, dense, .1, options);
  auto of_named = distributed_sgd(communicator, named, .1, with_name);
  for (std::int64_t step = 0; step < 4; ++step) {
    for (auto& [network, optimizer] :
         {std::pair{&sparse, &of_sparse}, {&dense, &of_dense}, {&named, &of_named}}) {
      optimizer->zero_grad();
      network->loss(communicator.rank(), step).backward();
      optimizer->step();
    }
  }
  expect_parameters(sparse, dense.parameters(), 1e-5, 1e-6);
  expect_parameters(named, dense.parameters(), 1e-5, 1e-6);
}

RANK_TEST(DistributedOptimizer, SparseAndDenseTrainingAreEqual) {
  for (const auto maximum_norm : {std::optional<double>(), std::optional(.01)})
    sparse_and_dense_training_are_equal(communicator, maximum_norm);
}

RANK_TEST(DistributedOptimizer, NullPointersAreRefused) {
  SmallNetwork network;
  EXPECT_TRUE(says(message_of<InputError>([&] {
                     const DistributedOptimizer optimizer(
                         communicator, network, std::shared_ptr<torch::optim::Optimizer>());
                   }),
                   {"DistributedOptimizer: the optimizer is a null pointer"}));
  EXPECT_THROW(ShardedOptimizer(communicator, network, nullptr), InputError);
  const auto arena = std::make_shared<ParameterArena>(communicator, network);
  EXPECT_THROW(ArenaOptimizer(arena, nullptr), InputError);
  EXPECT_THROW(ArenaOptimizer(nullptr, make_sgd({})), InputError);
  EXPECT_THROW(GradientReducer(communicator, std::shared_ptr<ParameterArena>()), InputError);
}

RANK_TEST(DistributedOptimizer, TensorsThatCannotBeSentAreNamed) {
  const auto words_of = [&](const torch::Tensor& buffer) {
    SmallNetwork network;
    network.register_buffer("odd", buffer);
    return message_of<Error>([&] { (void)distributed_sgd(communicator, network, .1); });
  };
  const auto complex = torch::ones({3}, torch::kComplexFloat);
  EXPECT_TRUE(says(words_of(complex),
                   {"buffer odd is of ComplexFloat", "view_as_real", "broadcast_parameters"}));
  EXPECT_TRUE(says(words_of(torch::eye(4).to_sparse()), {"buffer odd is not dense", "to_dense()"}));
  EXPECT_TRUE(
      says(words_of(torch::ones({1}).expand({5})), {"buffer odd has elements in one", "clone()"}));
  SmallNetwork network;
  network.register_buffer("odd", complex);
  auto optimizer = distributed_sgd(communicator, network, .1, {.broadcast_parameters = false});
  mean_loss(network, samples_of(communicator.rank(), 0)).backward();
  optimizer.step();
  if (communicator.size() > 1) {
    EXPECT_TRUE(says(message_of<Error>([&] { synchronize_buffers(communicator, network); }),
                     {"buffer odd is of ComplexFloat"}));
  }
  SmallNetwork other;
  other.register_parameter("spectrum", complex);
  EXPECT_TRUE(says(message_of<Error>([&] { (void)distributed_sgd(communicator, other, .1); }),
                   {"parameter spectrum is of ComplexFloat", "view_as_real"}));
}

RANK_TEST(DistributedOptimizer, BuffersBecomeThoseOfTheLowestActiveRank) {
  SmallNetwork network;
  network.calls.fill_(10 + communicator.rank());
  auto optimizer = distributed_sgd(communicator, network, .1, {.broadcast_buffers = true});
  mean_loss(network, samples_of(communicator.rank(), 0)).backward();
  optimizer.step();
  EXPECT_TRUE(network.calls.eq(10).all().item<bool>());

  const Communicator checked = communicator.checked();
  network.calls.fill_(10 + communicator.rank());
  if (communicator.size() > 1 && communicator.rank() == 0) {
    (void)checked.join();
  } else {
    synchronize_buffers(checked, network);
    EXPECT_TRUE(network.calls.eq(communicator.size() > 1 ? 11 : 10).all().item<bool>());
    (void)checked.join();
  }
}

}  // namespace

}  // namespace kolo::testing
