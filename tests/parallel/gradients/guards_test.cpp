#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>

#include "kolo/base/error.h"
#include "parallel/optimizers/sgd_of.h"
#include "parallel/small_network.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/rank_test.h"
#include "support/says.h"

// Programs that forget a call, or make one too early, get an Error that says so, whatever the
// number and the size of the buckets.
namespace kolo::testing {

namespace {

const BucketLimits sizes[] = {one_each, {}, {1, 100}};

const auto says_what_to_do =
    AllOf(HasSubstr("between backward() and finish()"), HasSubstr("call finish() first"));

void backward(SmallNetwork& network, int rank, std::int64_t pass) {
  mean_loss(network, samples_of(rank, pass)).backward();
}

RANK_TEST(Guards, AStepWithoutFinishIsAnError) {
  for (const BucketLimits& limits : sizes) {
    AveragedNetwork network(communicator, {.buckets = limits});
    torch::optim::SGD sgd(network.parameters(), .1);
    torch::optim::Adam adam(network.parameters(), .1);
    const torch::Tensor before = network.first->weight.detach().clone();
    network.backward(0);
    EXPECT_THAT(message_of<Error>([&] { sgd.step(); }), says_what_to_do);
    EXPECT_THAT(message_of<Error>([&] { adam.step(); }), says_what_to_do);
    EXPECT_THAT(message_of<Error>([&] {
                  const torch::NoGradGuard no_gradient;
                  network.first->weight -= .1 * network.first->weight.grad();
                }),
                AllOf(says_what_to_do, HasSubstr("first.weight")));
    EXPECT_TRUE(network.first->weight.equal(before));
    network.expect_averages({0});
    sgd.step();
  }
}

RANK_TEST(Guards, ClippingBeforeFinishIsAnError) {
  for (const BucketLimits& limits : sizes) {
    SmallNetwork network;
    auto optimizer = distributed_sgd(communicator, network, .1, {.reducer = {.buckets = limits}});
    for (std::int64_t step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      backward(network, communicator.rank(), step);
      EXPECT_THAT(
          message_of<Error>([&] { torch::nn::utils::clip_grad_norm_(network.parameters(), .1); }),
          says_what_to_do);
      EXPECT_THAT(
          message_of<Error>([&] { torch::nn::utils::clip_grad_value_(network.parameters(), .1); }),
          says_what_to_do);
      EXPECT_THAT(message_of<Error>([&] { optimizer.inner().step(); }), says_what_to_do);
      EXPECT_GT(optimizer.clip_gradients(.01), .01);
      EXPECT_NEAR(optimizer.clip_gradients(1), .01, 1e-6);
      optimizer.step();
    }
  }
}

// Each rank has a part of the average only: clipping it, or adding to it, would tear ranks apart.
RANK_TEST(Guards, GradientsOfAShardedOptimizerAreNotRead) {
  for (const BucketLimits& limits : sizes) {
    SmallNetwork network;
    ShardedOptimizer optimizer(communicator, network, make_adam({}), {.buckets = limits});
    const auto clip = [&] { torch::nn::utils::clip_grad_norm_(network.parameters(), .1); };
    const auto names_the_way =
        AllOf(HasSubstr("averages this rank's part only"), HasSubstr("clip_gradients()"));
    backward(network, communicator.rank(), 0);
    EXPECT_THAT(message_of<Error>(clip), says_what_to_do);
    optimizer.finish();
    EXPECT_THAT(message_of<Error>(clip), names_the_way);
    optimizer.step();
    EXPECT_THAT(message_of<Error>(clip), names_the_way);
    backward(network, communicator.rank(), 1);
    EXPECT_TRUE(says(message_of<Error>([&] { optimizer.step(); }),
                     {"there was no zero_grad() between the last step and this backward()"}));
    optimizer.zero_grad();
    const torch::Tensor before = network.first->weight.detach().clone();
    backward(network, communicator.rank(), 1);
    optimizer.finish();
    optimizer.zero_grad(false);
    optimizer.step();  // discarded
    EXPECT_TRUE(network.first->weight.equal(before));
    backward(network, communicator.rank(), 1);
    optimizer.step();
    EXPECT_FALSE(network.first->weight.equal(before));
  }
}

// The Error is the same on all ranks.
RANK_TEST(Guards, DifferentLearningRatesAreAnError) {
  if (communicator.size() == 1) return;
  for (const BucketLimits& limits : sizes) {
    SmallNetwork network, sharded;
    const double rate = communicator.rank() == 1 ? .2 : .1;
    auto optimizer = distributed_sgd(communicator, network, rate, {.reducer = {.buckets = limits}});
    ShardedOptimizer shards(communicator, sharded, make_sgd({}),
                            {.learning_rate = rate, .buckets = limits});
    const auto tells_rates = AllOf(HasSubstr("rank 0 steps with a learning rate of 0.1"),
                                   HasSubstr("rank 1 steps with a learning rate of 0.2"));
    backward(network, communicator.rank(), 0);
    EXPECT_THAT(message_of<Error>([&] { optimizer.step(); }), tells_rates);
    backward(sharded, communicator.rank(), 0);
    EXPECT_THAT(message_of<Error>([&] { shards.step(); }), tells_rates);
    optimizer.param_groups()[0].options().set_lr(.3);
    network.zero_grad();
    backward(network, communicator.rank(), 0);
    optimizer.step();
  }
}

RANK_TEST(Guards, ParametersBeginAsThoseOfRank0) {
  SmallNetwork network(7, 1 + communicator.rank()), first;
  network.calls.fill_(communicator.rank());
  const auto optimizer = distributed_sgd(communicator, network, .1);
  expect_parameters(network, first.parameters());
  EXPECT_EQ(network.calls[0].item<float>(), 0);
}

// A network may be given other weights (those of an average, say) and keeps them over a step; the
// tensors that it had before keep their values.
RANK_TEST(Guards, WeightsThatWereExchangedKeepTheirValues) {
  for (const BucketLimits& limits : sizes) {
    SmallNetwork network;
    auto optimizer = distributed_sgd(communicator, network, .1, {.reducer = {.buckets = limits}});
    for (std::int64_t step = 0; step < 2; ++step) {
      const torch::Tensor was = network.first->weight.data();
      const torch::Tensor before = was.clone();
      network.first->weight.set_data(before * 2);
      optimizer.zero_grad();
      backward(network, communicator.rank(), step);
      optimizer.step();
      EXPECT_TRUE(was.equal(before)) << step;
      EXPECT_TRUE(network.first->weight.allclose(before * 2 - .1 * network.first->weight.grad(),
                                                 1e-5, 1e-6));
      network.first->weight.set_data(was);
    }
  }
}

}  // namespace

}  // namespace kolo::testing
