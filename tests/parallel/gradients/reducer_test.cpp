#include "kolo/base/error.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/gradient_hook.h"
#include "kolo/parallel/gradient_reducer.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/small_network.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

RANK_TEST(GradientReducer, PassesWithoutCommunicationAddUp) {
  AveragedNetwork network(communicator);
  for (std::int64_t step = 0; step < 3; ++step) {
    network.reducer.clear_gradients();
    std::vector<std::int64_t> passes{3 * step, 3 * step + 1};
    {
      const auto quiet = network.reducer.no_sync();
      for (const auto pass : passes) network.backward(pass);
    }
    // All passes of the second step are in no_sync().
    if (step != 1) {
      network.backward(3 * step + 2);
      passes.push_back(3 * step + 2);
    }
    network.expect_averages(passes);
  }
  EXPECT_EQ(network.reducer.statistics().steps, 3);
}

// The first bucket of a rebuilt plan is what was ready first: here `first`, which is used last.
struct Backwards : SmallNetwork {
  Backwards() : SmallNetwork(5) {}
};
torch::Tensor backwards_loss(Backwards& network, const torch::Tensor& input) {
  return torch::cat({network.first(torch::tanh(input)), network.second(input)}, 1)
      .square()
      .sum(1)
      .mean();
}

RANK_TEST(GradientReducer, BucketsAreRebuiltAfterTheFirstStep) {
  Backwards network;
  GradientReducer reducer(communicator, network, {.buckets = one_each});
  const auto total = reducer.arena()->plan().total_bytes;
  std::vector<std::size_t> order;
  for (std::int64_t step = 0; step < 3; ++step) {
    reducer.clear_gradients();
    backwards_loss(network, samples_of(communicator.rank(), step)).backward();
    reducer.finish();
    expect_gradients(network, average_of_ranks<Backwards>(
                                  communicator.size(), network, [&](Backwards& alone, int rank) {
                                    backwards_loss(alone, samples_of(rank, step)).backward();
                                  }));
    const torch::NoGradGuard no_gradient;
    for (auto& parameter : network.parameters()) parameter.sub_(parameter.grad(), .1);
    EXPECT_EQ(reducer.arena()->plan().total_bytes, total);
    EXPECT_LE(reducer.arena()->version(), communicator.size() == 1 ? 1 : 2);
  }
}

RANK_TEST(GradientReducer, TheArenaIsCutAnew) {
  SmallNetwork network;
  const SmallNetwork untouched;
  const auto arena = std::make_shared<ParameterArena>(communicator, network, one_each);
  ArenaOptimizer optimizer(arena, make_sgd({}));
  arena->gradient_view(2).fill_(7);
  network.second->weight.mutable_grad() = arena->gradient_view(2);
  EXPECT_FALSE(arena->rebuild(communicator, std::vector<std::size_t>{3, 2, 1, 0}));
  EXPECT_TRUE(arena->rebuild(communicator, std::vector<std::size_t>{2, 0, 3, 1}));
  EXPECT_EQ(arena->version(), 2);
  expect_parameters(network, untouched.parameters());
  EXPECT_TRUE(arena->flat_gradients(0).narrow(0, 0, 21).eq(7).all().item<bool>());
  EXPECT_TRUE(network.second->weight.grad().is_same(arena->gradient_view(2)));
  EXPECT_EQ(network.second->weight.data_ptr(), arena->flat_parameters(0).data_ptr());
  EXPECT_TRUE(says(message_of<Error>([&] { optimizer.update(0, .1, 1); }), {"rebuilt after sgd"}));
  if (communicator.size() == 1) return;
  const auto other = communicator.rank() == 0 ? std::vector<std::size_t>{0, 1, 2, 3}
                                              : std::vector<std::size_t>{1, 0, 2, 3};
  EXPECT_TRUE(
      says(message_of<Error>([&] { arena->rebuild(communicator, other); }), {"models differ"}));
}

// A hook as a user could write it.
struct CountingHook final : GradientHook {
  void average(const Communicator& communicator, const GradientBucket& bucket) override {
    EXPECT_TRUE(bucket.gradients[0].is_alias_of(bucket.flat));
    communicator.all_reduce(buffer_of(bucket.flat), ReduceOp::average);
    calls.push_back(bucket.index);
    if (fails) throw Error("the hook is out of order");
  }
  [[nodiscard]] std::int64_t bytes_sent() const override {
    return static_cast<std::int64_t>(calls.size());
  }
  void buckets_changed() override { ++changes; }

  std::vector<std::size_t> calls;
  int changes = 0;
  bool fails = false;
};

RANK_TEST(GradientReducer, HooksAverage) {
  const auto counting = std::make_shared<CountingHook>();
  AveragedNetwork network(communicator, {.hook = counting, .buckets = one_each});
  network.expect_step(0);
  EXPECT_EQ(counting->calls, (std::vector<std::size_t>{0, 1, 2, 3}));
  EXPECT_EQ(network.reducer.statistics().hook_bytes, 4);
  EXPECT_EQ(counting->changes, network.reducer.arena()->version() - 1);
  counting->fails = true;
  network.backward(0);
  EXPECT_TRUE(says(message_of<Error>([&] { network.reducer.finish(); }), {"out of order"}));
  counting->fails = false;  // and it can go on
  network.expect_step(1);
}

RANK_TEST(GradientReducer, CompressionHalvesTheBytes) {
  for (const auto& [hook, tolerance] :
       {std::pair{float16_compression(), 1e-3}, std::pair{bfloat16_compression(), 1e-2}}) {
    AveragedNetwork network(communicator, {.hook = hook, .buckets = one_each});
    network.expect_step(0, tolerance);
    const auto statistics = network.reducer.statistics();
    EXPECT_EQ(statistics.hook_bytes, communicator.size() == 1 ? 0 : statistics.bytes / 2);
  }
}

RANK_TEST(GradientReducer, CommunicationIsSwitchedOff) {
  AveragedNetwork network(communicator, {.communicate = false});
  network.backward(0);
  network.reducer.finish();
  SmallNetwork alone;
  mean_loss(alone, samples_of(communicator.rank(), 0)).backward();
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_TRUE(network.parameters()[i].grad().equal(alone.parameters()[i].grad()));
  EXPECT_EQ(network.reducer.statistics().bytes, network.reducer.arena()->plan().total_bytes);
}

TEST(GradientReducer, ASecondBackwardBetweenWaitAndFinishIsAnError) {
  SmallNetwork network;
  const auto solo = Communicator::solo();
  GradientReducer reducer(solo, std::make_shared<ParameterArena>(solo, network));
  mean_loss(network, samples(0, 2)).backward();
  reducer.wait(0);
  EXPECT_THROW(mean_loss(network, samples(0, 2)).backward(), std::exception);
}

TEST(GradientReducer, TheModuleOutlivesIt) {
  SmallNetwork network;
  const auto solo = Communicator::solo();
  { GradientReducer reducer(solo, std::make_shared<ParameterArena>(solo, network)); }
  network.zero_grad(true);
  mean_loss(network, samples(0, 2)).backward();
  EXPECT_TRUE(network.first->weight.grad().defined());
}

}  // namespace

}  // namespace kolo::testing
