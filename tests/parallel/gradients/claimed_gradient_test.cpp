// Layers that compute gradients where the reducer wants them (kolo/base/gradient_destination.h).
#include <torch/csrc/autograd/function_hook.h>

#include "kolo/base/gradient_destination.h"
#include "kolo/parallel/gradient_reducer.h"
#include "parallel/small_network.h"
#include "support/rank_test.h"

namespace kolo::testing {

namespace {

std::shared_ptr<void> claim(const torch::Tensor& parameter) {
  const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(parameter);
  if (!accumulator) return nullptr;
  for (const auto& hook : accumulator->post_hooks()) {
    if (auto* const destination = dynamic_cast<GradientDestination*>(hook.get()))
      return destination->take();
  }
  return nullptr;
}

// input * weight, whose gradient lies in claimed memory if there is some.
struct Product : torch::autograd::Function<Product> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& input, const torch::Tensor& weight) {
    context->save_for_backward({input, weight});
    return input * weight;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor value = (gradients[0] * saved[0]).sum(0);
    const auto memory = claim(saved[1]);
    if (!memory) return {gradients[0] * saved[1], value};
    auto claimed = torch::from_blob(memory.get(), value.sizes(), [memory](void*) {});
    claimed.copy_(value);
    return {gradients[0] * saved[1], claimed};
  }
};

// One weight, used as often as is asked for.
struct Products : torch::nn::Module {
  torch::Tensor weight = register_parameter("weight", torch::arange(5, torch::kFloat) + 1);
};

torch::Tensor products_loss(const Products& network, const torch::Tensor& input, int times = 1) {
  torch::Tensor x = input;
  for (int i = 0; i < times; ++i) x = Product::apply(x, network.weight);
  return x.square().sum(1).mean();
}

std::vector<torch::Tensor> expected_of(const Communicator& communicator, const Products& network,
                                       int times) {
  return average_of_ranks<Products>(communicator.size(), network, [&](Products& alone, int rank) {
    products_loss(alone, samples_of(rank, 0), times).backward();
  });
}

RANK_TEST(ClaimedGradients, GradientsAreComputedInTheArena) {
  Products network;
  GradientReducer reducer(communicator, network);
  for (int step = 0; step < 3; ++step) {
    reducer.clear_gradients();
    products_loss(network, samples_of(communicator.rank(), 0)).backward();
    EXPECT_FALSE(claim(network.weight)) << "its gradient is there";
    reducer.finish();
    EXPECT_EQ(network.weight.grad().data_ptr(), reducer.arena()->gradient_view(0).data_ptr());
    expect_gradients(network, expected_of(communicator, network, 1));
  }
  reducer.clear_gradients();
  EXPECT_EQ(claim(network.weight).get(), reducer.arena()->gradient_view(0).data_ptr());
  EXPECT_FALSE(claim(network.weight)) << "once in a step";
}

RANK_TEST(ClaimedGradients, AWeightOfTwoFunctionsIsClaimedByOne) {
  Products network;
  GradientReducer reducer(communicator, network);
  products_loss(network, samples_of(communicator.rank(), 0), 3).backward();
  reducer.finish();
  expect_gradients(network, expected_of(communicator, network, 3));
}

RANK_TEST(ClaimedGradients, WhatIsAddedToIsNotClaimed) {
  Products network;
  GradientReducer reducer(communicator, network);
  {
    const auto quiet = reducer.no_sync();
    EXPECT_FALSE(claim(network.weight));
    products_loss(network, samples_of(communicator.rank(), 0)).backward();
  }
  EXPECT_FALSE(claim(network.weight));
  products_loss(network, samples_of(communicator.rank(), 0)).backward();
  reducer.finish();
  auto expected = expected_of(communicator, network, 1);
  expected[0] = 2 * expected[0];
  expect_gradients(network, expected);
}

}  // namespace

}  // namespace kolo::testing
