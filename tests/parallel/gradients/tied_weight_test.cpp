#include <torch/optim/sgd.h>

#include "kolo/base/error.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/broadcast_state.h"
#include "kolo/parallel/checks.h"
#include "kolo/parallel/gradient_norm.h"
#include "kolo/parallel/sharded_optimizer.h"
#include "parallel/small_network.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

// One tensor in two modules, and one module under two names.
struct Tied : torch::nn::Module {
  Tied()
      : first(std::make_shared<torch::nn::LinearImpl>(5, 5)),
        last(std::make_shared<Layer>(5, 5)),
        again(first) {
    register_module("first", first);
    last->unregister("weight");
    last->weight = last->register_parameter("weight", first->weight);
    register_module("last", last);
    register_module("again", again);
    statistics = register_buffer("statistics", torch::ones({2}));
    set_to_sines(*this, .7);
  }

  torch::Tensor loss(int rank, std::int64_t pass) {
    const torch::Tensor hidden = torch::tanh(first->forward(samples_of(rank, pass)));
    return again->forward(torch::tanh(last->forward(hidden))).square().sum(1).mean();
  }

  struct Layer : torch::nn::LinearImpl {
    using torch::nn::LinearImpl::LinearImpl;
    void unregister(const std::string& name) { parameters_.erase(name); }
  };
  std::shared_ptr<torch::nn::LinearImpl> first;
  std::shared_ptr<Layer> last;
  std::shared_ptr<torch::nn::LinearImpl> again;
  torch::Tensor statistics;
};

std::vector<torch::Tensor> tied_average(const Tied& network, int ranks, std::int64_t pass) {
  return average_of_ranks<Tied>(ranks, network,
                                [&](Tied& alone, int rank) { alone.loss(rank, pass).backward(); });
}

RANK_TEST(TiedWeights, TiedWeightsAreAveragedOnce) {
  Tied network;
  GradientReducer reducer(communicator, network, {.buckets = one_each});
  ASSERT_EQ(reducer.arena()->parameters().size(), 3);
  EXPECT_EQ(reducer.arena()->plan().parameters[0].names(),
            "first.weight (also last.weight, again.weight)");
  for (std::int64_t step = 0; step < 5; ++step) {
    reducer.clear_gradients();
    network.loss(communicator.rank(), step).backward();
    reducer.finish();
    const auto expected = tied_average(network, communicator.size(), step);
    expect_gradients(network, expected);
    double squares = 0;
    for (const auto& parameter : {network.first->weight, network.first->bias, network.last->bias})
      squares += parameter.grad().square().sum().item<double>();
    EXPECT_NEAR(clip_gradient_norm(network.parameters(), 1e9), std::sqrt(squares),
                1e-5 * std::sqrt(squares));
  }
}

// Both of kolo's optimizers step once on tied weights, and states name them once.
RANK_TEST(TiedWeights, TiedWeightsAreSteppedOnce) {
  Tied plain, sharded, reference;
  const auto arena = std::make_shared<ParameterArena>(communicator, plain, one_each);
  ArenaOptimizer optimizer(arena, make_sgd({.momentum = .9}));
  GradientReducer reducer(communicator, arena);
  ShardedOptimizer shards(communicator, sharded, make_sgd({.momentum = .9}),
                          {.learning_rate = .1, .buckets = one_each});
  torch::optim::SGD sgd({reference.first->weight, reference.first->bias, reference.last->bias},
                        torch::optim::SGDOptions(.1).momentum(.9));
  for (std::int64_t step = 0; step < 3; ++step) {
    const auto averages = tied_average(reference, communicator.size(), step);
    for (std::size_t i = 0; i < averages.size(); ++i)
      reference.parameters()[i].mutable_grad() = averages[i];
    sgd.step();
    reducer.clear_gradients();
    plain.loss(communicator.rank(), step).backward();
    for (std::size_t bucket = 0; bucket < arena->buckets(); ++bucket) {
      reducer.wait(bucket);
      optimizer.update(bucket, .1, step + 1);
    }
    reducer.finish();
    shards.zero_grad();
    sharded.loss(communicator.rank(), step).backward();
    shards.step();
  }
  expect_parameters(plain, reference.parameters(), 1e-5, 1e-6);
  expect_parameters(sharded, reference.parameters(), 1e-5, 1e-6);
  EXPECT_EQ(optimizer.named_state().size(), 3);
  EXPECT_EQ(shards.gather_state().size(), 3);
}

RANK_TEST(TiedWeights, TiedWeightsAreBroadcastAndComparedOnce) {
  Tied network;
  const torch::NoGradGuard no_gradient;
  network.first->weight.add_(communicator.rank());
  broadcast_parameters(communicator, network);
  EXPECT_TRUE(network.last->weight.equal(Tied().last->weight));
  if (communicator.size() == 1) return;
  const ReplicaCheck check(communicator, ParameterArena(communicator, network), 1);
  if (communicator.rank() == 1) network.last->weight.add_(1);
  EXPECT_THAT(message_of<Error>([&] { check.after_step(1); }),
              AllOf(HasSubstr("first.weight (also last.weight, again.weight)"),
                    Not(HasSubstr(", last.weight (rank"))));
}

struct Overlapping : torch::nn::Module {
  explicit Overlapping(const std::string& how) {
    const torch::Tensor matrix = torch::ones({4, 6});
    const torch::Tensor whole = register_parameter("whole", matrix.narrow(1, 0, 3).detach());
    if (how == "transposed") register_parameter("part", matrix.t().narrow(0, 0, 2).detach());
    if (how == "buffer") register_buffer("part", matrix.narrow(0, 3, 1));
    if (how == "columns") register_parameter("part", matrix.narrow(1, 3, 3).detach());
  }
};

RANK_TEST(TiedWeights, TwoTensorsInOneMemoryAreRefused) {
  for (const std::string how : {"transposed", "buffer"}) {
    const Overlapping network(how);
    EXPECT_TRUE(says(message_of<Error>([&] { GradientReducer(communicator, network); }),
                     {"whole", "part", "two tensors in the same memory", "clone()"}));
  }
  const Overlapping network("columns");
  const GradientReducer reducer(communicator, network);
  EXPECT_EQ(reducer.arena()->parameters().size(), 2);
}

// Zeroes as zero_grad() of LibTorch's optimizers does; some versions' undefine gradients instead.
void zero_in_place(torch::nn::Module& network) {
  for (auto& parameter : network.parameters()) {
    if (parameter.grad().defined()) parameter.mutable_grad().detach_().zero_();
  }
}

// Every way in which users empty gradients, with gradients where the arena has them.
RANK_TEST(TiedWeights, GradientsAreZeroedAsInLibTorch) {
  for (int way = 0; way < 5; ++way) {
    AveragedNetwork network(communicator);
    torch::optim::SGD sgd(network.parameters(), .1);
    for (std::int64_t step = 0; step < 3; ++step) {
      if (way == 0) sgd.zero_grad();
      if (way == 1) zero_in_place(network);
      if (way == 2) network.zero_grad();
      if (way == 3) network.zero_grad(true);
      if (way == 4) network.zero_grad(false);
      network.backward(step);
      network.expect_averages({step});
      EXPECT_EQ(network.first->weight.grad().data_ptr(),
                network.reducer.arena()->gradient_view(0).data_ptr());
      sgd.step();
    }
  }
}

}  // namespace

}  // namespace kolo::testing
