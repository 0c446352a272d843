#include <sstream>

#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>

#include "kolo/base/error.h"
#include "kolo/parallel/broadcast_state.h"
#include "kolo/parallel/distributed_optimizer.h"
#include "kolo/parallel/gradient_norm.h"
#include "kolo/parallel/sharded_optimizer.h"
#include "kolo/parallel/trained_modules.h"
#include "parallel/optimizers/sgd_of.h"
#include "parallel/small_network.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

RANK_TEST(Passes, BackwardPassesOfAStepAddUp) {
  for (const bool overlap : {true, false}) {
    AveragedNetwork network(communicator, {.overlap = overlap, .buckets = one_each});
    for (const std::int64_t first : {0, 3, 6}) {
      network.zero_grad();
      for (std::int64_t pass = first; pass < first + 3; ++pass) network.backward(pass);
      network.expect_averages({first, first + 1, first + 2});
    }
    // Gradients that were left are added to, and a pass in no_sync() counts after others too.
    network.backward(0);
    {
      const auto quiet = network.reducer.no_sync();
      network.backward(1);
    }
    network.expect_averages({6, 7, 8, 0, 1}, 1e-5);
  }
}

RANK_TEST(Passes, GradientsZeroedBetweenPassesDoNotCount) {
  for (const bool overlap : {true, false}) {
    for (int way = 0; way < 4; ++way) {
      AveragedNetwork network(communicator, {.overlap = overlap, .buckets = one_each});
      for (std::int64_t step = 0; step < 3; ++step) {
        network.backward(20 + step);  // a generator's, say
        network.backward(30 + step);
        if (way == 0) network.zero_grad(true);
        if (way == 1) network.zero_grad(false);
        if (way == 2) network.reducer.clear_gradients();
        if (way == 3) {
          for (auto& parameter : network.parameters()) parameter.mutable_grad().detach_().zero_();
        }
        network.backward(step);
        network.backward(step + 10);
        network.expect_averages({step, step + 10});
        network.zero_grad();
      }
    }
  }
}

RANK_TEST(Passes, SparseGradientsOfSeveralPassesAddUp) {
  for (const bool zeroes : {false, true}) {
    Words network;
    GradientReducer reducer(communicator, network, {.buckets = one_each});
    for (std::int64_t step = 0; step < 3; ++step) {
      reducer.clear_gradients();
      network.loss(communicator.rank(), step).backward();
      if (zeroes) network.zero_grad();
      network.loss(communicator.rank(), step + 1).backward();
      reducer.finish();
      EXPECT_TRUE(network.table->weight.grad().is_sparse());
      const auto backward_of = [&](Words& alone, int rank) {
        if (!zeroes) alone.loss(rank, step).backward();
        alone.loss(rank, step + 1).backward();
      };
      expect_gradients(network, average_of_ranks<Words>(communicator.size(), network, backward_of),
                       1e-5);
    }
  }
}

// The loop of PyTorch's example of a GAN: two losses of one network, and a third that goes through
// it into the other, before it is zeroed.
void train_gan(SmallNetwork& discriminator, torch::nn::Linear& generator, int rank,
               torch::optim::Optimizer& of_discriminator, torch::optim::Optimizer& of_generator,
               const std::function<void(torch::nn::Module&)>& zero) {
  const auto loss_of = [&](const torch::Tensor& input) {
    return discriminator.forward(input).square().mean();
  };
  for (std::int64_t step = 0; step < 4; ++step) {
    zero(discriminator);
    loss_of(samples_of(rank, step)).backward();
    const torch::Tensor fake = generator(samples_of(rank, step + 10));
    (1 - loss_of(fake.detach())).backward();
    of_discriminator.step();
    zero(*generator);
    loss_of(fake).backward();
    of_generator.step();
  }
}

void start_alike(torch::nn::Linear& generator) {
  const torch::NoGradGuard no_gradient;
  generator->weight.copy_(torch::eye(5) * .5);
  generator->bias.fill_(.1);
}

// Trains by hand, with the average of all ranks' gradients.
void train_gan_alone(SmallNetwork& discriminator, torch::nn::Linear& generator, int ranks) {
  torch::optim::SGD sgd(discriminator.parameters(), .05),
      sgd_of_generator(generator->parameters(), .05);
  const auto loss_of = [&](const torch::Tensor& input) {
    return discriminator.forward(input).square().mean() / ranks;
  };
  for (std::int64_t step = 0; step < 4; ++step) {
    discriminator.zero_grad();
    for (int rank = 0; rank < ranks; ++rank) {
      loss_of(samples_of(rank, step)).backward();
      (-loss_of(generator(samples_of(rank, step + 10)).detach())).backward();
    }
    std::vector<torch::Tensor> fakes;
    for (int rank = 0; rank < ranks; ++rank)
      fakes.push_back(generator(samples_of(rank, step + 10)));
    sgd.step();
    generator->zero_grad();
    for (const torch::Tensor& fake : fakes) loss_of(fake).backward();
    sgd_of_generator.step();
  }
}

RANK_TEST(Passes, TheNaturalLoopOfAGanIsRight) {
  SmallNetwork reference;
  torch::nn::Linear generator_of_reference(5, 5);
  start_alike(generator_of_reference);
  train_gan_alone(reference, generator_of_reference, communicator.size());
  const auto zeroes = std::vector<std::function<void(torch::nn::Module&)>>{
      [](torch::nn::Module& module) { module.zero_grad(); },
      [](torch::nn::Module& module) { module.zero_grad(false); },
      [](torch::nn::Module& module) { module.zero_grad(true); }};
  for (const auto& zero : zeroes) {
    for (const bool is_sharded : {false, true}) {
      SmallNetwork discriminator;
      torch::nn::Linear generator(5, 5);
      start_alike(generator);
      DistributedOptimizer of_generator(communicator, *generator,
                                        torch::optim::SGD(generator->parameters(), .05));
      const auto optimizer =
          sgd_of(communicator, discriminator, discriminator.parameters(), .05, is_sharded);
      train_gan(discriminator, generator, communicator.rank(), *optimizer, of_generator, zero);
      expect_parameters(discriminator, reference.parameters(), 1e-4, 1e-5);
      EXPECT_TRUE(generator->weight.allclose(generator_of_reference->weight, 1e-4, 1e-5));
    }
  }
}

RANK_TEST(Passes, PassesThatDifferBetweenRanksAreAnError) {
  if (communicator.size() == 1) return;
  AveragedNetwork network(communicator);
  network.backward(0);
  if (communicator.rank() == 1) network.backward(1);
  EXPECT_TRUE(says(message_of<Error>([&] { network.reducer.finish(); }),
                   {"the ranks' steps differ: rank 1 had several backward()"}));
  network.zero_grad();
  network.backward(2);
  network.expect_averages({2});
}

RANK_TEST(Passes, GradientsChangedWhileTheyAreAveragedAreAnError) {
  AveragedNetwork network(communicator);
  const auto last = communicator.size() - 1;
  network.backward(0);
  EXPECT_TRUE(says(message_of<Error>([&] { (void)clip_gradient_norm(network.parameters(), 1); }),
                   {"between backward() and finish()"}));
  if (communicator.rank() == last) {
    for (auto& parameter : network.parameters()) parameter.mutable_grad() = parameter.detach() * 2;
  }
  EXPECT_TRUE(says(message_of<Error>([&] { network.reducer.finish(); }),
                   {"the gradient of first.weight, first.bias, ", "was changed after backward()",
                    "call finish() first"}));
  network.zero_grad();
  network.backward(1);
  network.reducer.finish();
  torch::nn::utils::clip_grad_norm_(network.parameters(), 1e6);
  expect_gradients(network, average_of_passes(network, communicator.size(), {1}));
}

RANK_TEST(Passes, AParameterHasOneReducerAtATime) {
  for (const auto& limits : {one_each, BucketLimits{}}) {
    SmallNetwork network;
    TrainedModules with_a_shared_module({network.second.ptr()},
                                        {torch::ones({2}).requires_grad_()});
    {
      GradientReducer first(communicator, network, {.buckets = limits});
      EXPECT_TRUE(says(
          message_of<Error>([&] { GradientReducer(communicator, network, {.buckets = limits}); }),
          {"the gradient of first.weight is averaged by another reducer",
           "destroy the other one first"}));
      EXPECT_TRUE(says(
          message_of<Error>([&] { GradientReducer(communicator, with_a_shared_module.module()); }),
          {"the gradient of 0.weight is averaged by another reducer"}));
      EXPECT_TRUE(says(message_of<Error>([&] { GradientReducer(communicator, first.arena()); }),
                       {"by another reducer"}));
      mean_loss(network, samples_of(communicator.rank(), 0)).backward();
      first.finish();
    }
    network.zero_grad(true);
    GradientReducer second(communicator, network, {.buckets = limits});
    expect_step(communicator, network, second, 0);
  }
}

RANK_TEST(Passes, ParametersMayBeFrozenWhenTheReducerIsMade) {
  SmallNetwork network;
  const auto arena = std::make_shared<ParameterArena>(communicator, network, one_each);
  network.first->weight.set_requires_grad(false);
  GradientReducer reducer(communicator, arena);
  for (const bool is_trained : {false, true}) {
    network.first->weight.set_requires_grad(is_trained);
    network.zero_grad();
    mean_loss(network, samples_of(communicator.rank(), 0)).backward();
    mean_loss(network, samples_of(communicator.rank(), 1)).backward();
    reducer.finish();
    expect_gradients(network, average_of_passes(network, communicator.size(), {0, 1}));
  }
}

RANK_TEST(Passes, AReducerThatGoesLeavesNothingInGradients) {
  SmallNetwork network;
  {
    const GradientReducer reducer(communicator, network, {.buckets = one_each});
    mean_loss(network, samples_of(communicator.rank(), 2)).backward();
    communicator.barrier();  // after all buckets
  }
  EXPECT_EQ(network.first->weight.grad().sizes(), network.first->weight.sizes());
}

// Loads networks behind the reducer, at first (steps 5 and 6 of docs/library/training-loops.md in
// reverse) and later.
RANK_TEST(Passes, NetworksMayBeLoadedBehindTheReducer) {
  for (const bool is_unused_allowed : {false, true}) {
    auto network = std::make_shared<SmallNetwork>();
    DistributedOptimizer optimizer(communicator, *network,
                                   torch::optim::SGD(network->parameters(), .1),
                                   {.reducer = {.unused_parameters = is_unused_allowed}});
    auto sharded = std::make_shared<SmallNetwork>();
    ShardedOptimizer shards(communicator, *sharded, make_sgd({}), {.learning_rate = .1});
    SmallNetwork reference;
    for (std::int64_t step = 0; step < 4; ++step) {
      if (step % 2 == 0) {
        const auto other = std::make_shared<SmallNetwork>(7, static_cast<int>(step) + 5);
        std::stringstream file;
        torch::save(other, file);
        const std::string text = file.str();
        for (const auto& each : {network, sharded}) {
          std::istringstream stream(text);
          auto into = each;
          torch::load(into, stream);
        }
        copy_parameters(reference, *other);
        if (step == 2) broadcast_state(communicator, *network, optimizer.inner());
      }
      const auto averages = average_of_passes(reference, communicator.size(), {step});
      network->zero_grad();
      mean_loss(*network, samples_of(communicator.rank(), step)).backward();
      optimizer.step();
      shards.zero_grad();
      mean_loss(*sharded, samples_of(communicator.rank(), step)).backward();
      shards.step();
      const torch::NoGradGuard no_gradient;
      for (std::size_t i = 0; i < 4; ++i) reference.parameters()[i].sub_(averages[i], .1);
      expect_parameters(*network, reference.parameters(), 1e-5, 1e-6);
      expect_parameters(*sharded, reference.parameters(), 1e-5, 1e-6);
    }
  }
}

RANK_TEST(Passes, NetworksThatHaveChangedAreToldOf) {
  {
    auto network = std::make_shared<SmallNetwork>();
    GradientReducer reducer(communicator, *network, {.unused_parameters = true});
    network->to(torch::kDouble);
    mean_loss(*network, samples_of(communicator.rank(), 0, torch::kDouble)).backward();
    EXPECT_TRUE(says(message_of<Error>([&] { reducer.finish(); }),
                     {"first.weight float32 [7, 5] has become Double [7, 5]",
                      "before its reducer or optimizer is made"}));
    network->to(torch::kFloat);
    network->zero_grad(true);
    mean_loss(*network, samples_of(communicator.rank(), 0)).backward();
    reducer.finish();
    expect_gradients(*network, average_of_passes(*network, communicator.size(), {0}), 1e-5);
  }
  auto network = std::make_shared<SmallNetwork>();
  GradientReducer reducer(communicator, *network, {.unused_parameters = true});
  network->second = torch::nn::Linear(7, 3);
  network->replace_module("second", network->second);
  mean_loss(*network, samples_of(communicator.rank(), 0)).backward();
  EXPECT_TRUE(says(message_of<Error>([&] { reducer.finish(); }),
                   {"parameter second.weight is new in the module"}));
}

}  // namespace

}  // namespace kolo::testing
