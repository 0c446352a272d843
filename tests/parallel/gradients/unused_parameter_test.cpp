#include <fmt/format.h>
#include <torch/nn/modules/linear.h>

#include "kolo/base/error.h"
#include "kolo/parallel/gradient_reducer.h"
#include "parallel/small_network.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

// Rank r uses `shared`, and `some` when r + shift is even; nobody uses `idle`.
struct Branches : torch::nn::Module {
  Branches() : shared(5, 3), some(5, 3), idle(5, 3) {
    register_module("idle", idle);
    register_module("shared", shared);
    register_module("some", some);
    const torch::NoGradGuard no_gradient;
    for (auto& parameter : parameters())
      parameter.copy_(torch::arange(parameter.numel()).view(parameter.sizes()) * .01);
  }

  torch::Tensor loss(int rank, std::int64_t shift, std::int64_t pass) {
    const torch::Tensor input = samples_of(rank, pass);
    torch::Tensor output = shared(input);
    if ((rank + shift) % 2 == 0) output = output * some(input);
    return output.square().sum(1).mean();
  }

  torch::nn::Linear shared, some, idle;
};

std::vector<torch::Tensor> expected_of(const Branches& network, int ranks, std::int64_t shift,
                                       std::int64_t pass) {
  return average_of_ranks<Branches>(
      ranks, network, [&](Branches& alone, int rank) { alone.loss(rank, shift, pass).backward(); });
}

RANK_TEST(UnusedParameters, UnusedParametersCountAsZero) {
  for (const bool overlap : {true, false}) {
    Branches network;
    GradientReducer reducer(communicator, network,
                            {.overlap = overlap, .unused_parameters = true, .buckets = one_each});
    for (std::int64_t step = 0; step < 4; ++step) {
      reducer.clear_gradients();
      network.loss(communicator.rank(), step, step).backward();
      reducer.finish();
      expect_gradients(network, expected_of(network, communicator.size(), step, step));
    }
    // A parameter that no rank uses keeps its gradient.
    const torch::Tensor mine = torch::full({3}, .1);
    network.idle->bias.mutable_grad() = mine;
    network.loss(communicator.rank(), 0, 0).backward();
    reducer.finish();
    EXPECT_TRUE(network.idle->bias.grad().is_same(mine));
    EXPECT_TRUE(mine.eq(.1F).all().item<bool>());
  }
}

RANK_TEST(UnusedParameters, GradientsLeftFromBeforeAreAddedTo) {
  Branches network;
  GradientReducer reducer(communicator, network, {.unused_parameters = true});
  network.loss(communicator.rank(), 0, 0).backward();
  reducer.finish();
  network.loss(communicator.rank(), 1, 1).backward();
  reducer.finish();
  auto expected = expected_of(network, communicator.size(), 0, 0);
  const auto second = expected_of(network, communicator.size(), 1, 1);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (second[i].defined())
      expected[i] = expected[i].defined() ? expected[i] + second[i] : second[i];
  }
  expect_gradients(network, expected);
}

RANK_TEST(UnusedParameters, OneRanksMissingGradientIsToldToAll) {
  AveragedNetwork network(communicator);
  const int last = communicator.size() - 1;
  for (int round = 0; round < 2; ++round) {
    network.reducer.clear_gradients();
    if (communicator.rank() == last)
      network.first(samples_of(last, 0)).sum().backward();
    else
      network.backward(0);
    EXPECT_TRUE(says(
        message_of<Error>([&] { network.reducer.finish(); }),
        {fmt::format("rank {}: backward gave no gradient to second.weight, second.bias;", last)}));
  }
  network.expect_step(1);  // the ranks still keep step
}

RANK_TEST(UnusedParameters, AStepWithoutBackwardIsNamed) {
  AveragedNetwork network(communicator, {});
  if (communicator.rank() > 0) network.backward(0);
  EXPECT_TRUE(says(message_of<Error>([&] { network.reducer.finish(); }),
                   {"rank 0: there was no backward() in this step"}));
}

RANK_TEST(UnusedParameters, AStaticGraphIsHeldTo) {
  for (const bool adds : {false, true}) {
    Branches network;
    GradientReducer reducer(communicator, network,
                            {.unused_parameters = true, .static_graph = true, .buckets = one_each});
    const std::int64_t shift = adds ? 1 : 0;
    for (std::int64_t step = 0; step < 3; ++step) {
      reducer.clear_gradients();
      network.loss(communicator.rank(), shift, step).backward();
      reducer.finish();
      expect_gradients(network, expected_of(network, communicator.size(), shift, step));
    }
    reducer.clear_gradients();
    // Only rank 0 changes.
    network.loss(communicator.rank(), communicator.rank() == 0 ? 1 - shift : shift, 0).backward();
    EXPECT_TRUE(says(message_of<Error>([&] { reducer.finish(); }),
                     {adds ? "rank 0: parameter some."
                           : "rank 0: backward gave no gradient "
                             "to some.weight, some.bias; in the "
                             "first step it did"}));
  }
}

RANK_TEST(UnusedParameters, ParametersFreezeAndThaw) {
  AveragedNetwork network(communicator);
  for (std::int64_t step = 0; step < 4; ++step) {
    network.first->weight.set_requires_grad(step % 2 == 0);
    network.expect_step(step);
    EXPECT_EQ(network.first->weight.grad().defined(), step % 2 == 0);
  }
}

RANK_TEST(UnusedParameters, RanksThatFreezeDifferentlyAreNamed) {
  if (communicator.size() == 1) return;
  AveragedNetwork network(communicator);
  network.first->weight.set_requires_grad(communicator.rank() != 1);
  network.backward(0);
  EXPECT_TRUE(says(message_of<Error>([&] { network.reducer.finish(); }),
                   {"the ranks' steps differ: rank 1 has frozen first.weight"}));
}

RANK_TEST(UnusedParameters, WhatWasFrozenAtFirstCanNotThaw) {
  SmallNetwork network;
  network.first->weight.set_requires_grad(false);
  GradientReducer reducer(communicator, network);
  network.first->weight.set_requires_grad(true);
  mean_loss(network, samples_of(communicator.rank(), 0)).backward();
  EXPECT_TRUE(says(message_of<Error>([&] { reducer.finish(); }),
                   {"parameter first.weight requires a gradient now"}));
}

}  // namespace

}  // namespace kolo::testing
