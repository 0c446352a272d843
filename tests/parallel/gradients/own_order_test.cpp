#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <torch/nn/modules/linear.h>

#include "kolo/parallel/broadcast_state.h"
#include "kolo/parallel/object_collectives.h"
#include "parallel/optimizers/sgd_of.h"
#include "parallel/small_network.h"
#include "support/rank_test.h"

// Collectives of the program's own, while some ranks already average a bucket that others begin
// only at the step's end.
namespace kolo::testing {

namespace {

constexpr double own_order_pace = .001;

// Rank 0 uses both layers, the others not the one that backward reaches first.
struct Uneven : torch::nn::Module {
  Uneven() : always(5, 40), sometimes(40, 3) {
    register_module("always", always);
    register_module("sometimes", sometimes);
    set_to_sines(*this, .7);
  }

  torch::Tensor loss(int rank, std::int64_t step, const torch::Tensor& input) {
    const torch::Tensor middle = always(input);
    if ((rank + step) % 2 == 0) return sometimes(middle).square().sum(1).mean();
    return middle.square().sum(1).mean();
  }

  torch::nn::Linear always, sometimes;
};

std::vector<torch::Tensor> averaged(const Uneven& network, int ranks, std::int64_t step) {
  return average_of_ranks<Uneven>(ranks, network, [&](Uneven& alone, int rank) {
    alone.loss(rank, step, samples_of(rank, step)).backward();
  });
}

ReducerOptions uneven_options() {
  return {.unused_parameters = true, .buckets = one_each};
}

RANK_TEST(OwnOrder, ACollectiveMayComeBetweenBackwardAndStep) {
  for (const bool is_checked : {false, true}) {
    const auto world = is_checked ? communicator.checked() : communicator;
    Uneven network;
    GradientReducer reducer(world, network, uneven_options());
    for (std::int64_t step = 0; step < 6; ++step) {
      reducer.clear_gradients();
      const torch::Tensor loss = network.loss(world.rank(), step, samples_of(world.rank(), step));
      loss.backward();
      EXPECT_EQ(average(world, static_cast<double>(world.rank())), (world.size() - 1) / 2.0);
      world.barrier();
      reducer.finish();
      expect_gradients(network, averaged(network, world.size(), step));
    }
  }
}

// Collectives of the program's own thread in forward and backward, as those of SyncBatchNorm.
RANK_TEST(OwnOrder, CollectivesMayComeInBackward) {
  Uneven network;
  GradientReducer reducer(communicator, network, uneven_options());
  for (std::int64_t step = 0; step < 4; ++step) {
    reducer.clear_gradients();
    const int rank = communicator.rank();
    torch::Tensor middle = network.always(samples_of(rank, step));
    if ((rank + step) % 2 == 0) middle = middle + network.sometimes(middle).sum();
    int calls = 0;
    middle.register_hook([&](const torch::Tensor&) { calls += all_reduce_value(communicator, 1); });
    // Its backward comes before every parameter's gradient on some ranks, after some on others.
    middle.square().sum(1).mean().backward();
    EXPECT_EQ(calls, communicator.size());
    reducer.finish();
    EXPECT_TRUE(network.always->weight.grad().defined());
  }
}

// Each reducer has an order of its own, too: which of two begins a bucket first may differ.
RANK_TEST(OwnOrder, TwoNetworksTrainSideBySide) {
  Uneven first, second;
  const auto options = [] { return DistributedOptimizerOptions{.reducer = uneven_options()}; };
  auto one = distributed_sgd(communicator, first, own_order_pace, options());
  auto other = distributed_sgd(communicator, second, own_order_pace, options());
  const int rank = communicator.rank();
  for (std::int64_t step = 0; step < 4; ++step) {
    const auto of_first = averaged(first, communicator.size(), step);
    const auto of_second = averaged(second, communicator.size(), step + 1);
    one.zero_grad();
    other.zero_grad();
    const auto first_loss = first.loss(rank, step, samples_of(rank, step));
    const auto second_loss = second.loss(rank, step + 1, samples_of(rank, step + 1));
    // Odd ranks go in reverse order, as with an order that depends on data.
    (rank % 2 == 0 ? first_loss : second_loss).backward();
    (rank % 2 == 0 ? second_loss : first_loss).backward();
    EXPECT_EQ(all_reduce_value(communicator, 1), communicator.size());
    one.step();
    other.step();
    expect_gradients(first, of_first);
    expect_gradients(second, of_second);
  }
}

// Ranks with fewer batches: they take part in the gradients' calls and in the program's own.
RANK_TEST(OwnOrder, RanksThatHaveJoinedTakePart) {
  for (const bool with_metrics : {true, false}) {
    const auto world = communicator.checked();
    Uneven network;
    auto optimizer = distributed_sgd(world, network, own_order_pace, {.reducer = uneven_options()});
    // Rank 0 has the most steps, though the lowest number.
    const int steps = 2 + world.size() - world.rank();
    for (int step = 0; step < steps; ++step) {
      const int active = std::min(world.size(), 2 + world.size() - step);
      const auto expected = average_of_ranks<Uneven>(active, network, [&](Uneven& alone, int rank) {
        alone.loss(rank, step, samples_of(rank, step)).backward();
      });
      optimizer.zero_grad();
      network.loss(world.rank(), step, samples_of(world.rank(), step)).backward();
      if (with_metrics) {
        EXPECT_EQ(all_reduce_value(world, 1), active);
      }
      optimizer.step();
      expect_gradients(network, expected);
    }
    const int last = world.join();
    EXPECT_EQ(last, 0);
    broadcast_parameters(world, network, last);
    EXPECT_EQ(all_reduce_value(world, 1), world.size());
    // Afterwards all make a step together.
    optimizer.zero_grad();
    const auto expected = averaged(network, world.size(), 0);
    network.loss(world.rank(), 0, samples_of(world.rank(), 0)).backward();
    optimizer.step();
    expect_gradients(network, expected);
    EXPECT_EQ(world.join(), world.size() - 1);
  }
}

// "asked bucket 0", "began bucket 0", ...
class Events final : public CollectiveListener {
 public:
  void on_submit(const CollectiveCall& call) noexcept override { note("asked", call); }
  void on_start(const CollectiveCall& call) noexcept override { note("began", call); }

  [[nodiscard]] std::vector<std::string> events() const {
    const std::lock_guard lock(mutex_);
    return events_;
  }

 private:
  void note(const char* what, const CollectiveCall& call) noexcept {
    const std::lock_guard lock(mutex_);
    if (!call.name.empty()) events_.push_back(fmt::format("{} {}", what, call.name));
  }

  mutable std::mutex mutex_;
  std::vector<std::string> events_;
};

RANK_TEST(OwnOrder, ListenersSeeEveryBucketInOrder) {
  if (communicator.size() == 1) return;
  SmallNetwork network;
  const auto arena = std::make_shared<ParameterArena>(communicator, network, one_each);
  GradientReducer reducer(communicator, arena);
  const auto listener = std::make_shared<Events>();  // as a timeline made after the reducer
  communicator.add_listener(listener);
  mean_loss(network, samples_of(communicator.rank(), 0)).backward();
  reducer.finish();
  communicator.remove_listener(listener);
  const auto events = listener->events();
  const auto place_of = [&](const std::string& event) {
    return std::find(events.begin(), events.end(), event) - events.begin();
  };
  std::ptrdiff_t last_asked = -1, last_began = -1;
  for (const std::string name :
       {"bucket 0", "bucket 1", "bucket 2", "bucket 3", "step agreement"}) {
    const auto asked = place_of("asked " + name);
    const auto began = place_of("began " + name);
    ASSERT_LT(began, std::ssize(events)) << name;
    EXPECT_LT(asked, began) << name;
    EXPECT_LT(last_asked, asked) << name;
    EXPECT_LT(last_began, began) << name;
    last_asked = asked;
    last_began = began;
  }
  mean_loss(network, samples_of(communicator.rank(), 0)).backward();
  reducer.finish();
  EXPECT_EQ(listener->events().size(), events.size());
}

// Two halves of one network, each with a backward() in a thread of its own.
RANK_TEST(OwnOrder, BackwardMayRunInSeveralThreads) {
  SmallNetwork network;
  GradientReducer reducer(communicator, network, {.buckets = one_each});
  for (std::int64_t step = 0; step < 5; ++step) {
    reducer.clear_gradients();
    const torch::Tensor input = samples_of(communicator.rank(), step);
    const auto loss_of_first = [&](SmallNetwork& of) { return of.first(input).square().sum(); };
    const auto loss_of_second = [](SmallNetwork& of, const torch::Tensor& hidden) {
      return of.second(hidden).square().sum();
    };
    const torch::Tensor hidden = torch::cat({input, input}, 1).narrow(1, 0, 7);
    std::thread other([&] { loss_of_first(network).backward(); });
    loss_of_second(network, hidden).backward();
    other.join();
    reducer.finish();
    expect_gradients(
        network,
        average_of_ranks<SmallNetwork>(
            communicator.size(), network, [&](SmallNetwork& alone, int rank) {
              const torch::Tensor theirs = samples_of(rank, step);
              alone.first(theirs).square().sum().backward();
              loss_of_second(alone, torch::cat({theirs, theirs}, 1).narrow(1, 0, 7)).backward();
            }));
  }
}

// Networks one after another use one group of ranks again.
RANK_TEST(OwnOrder, AnOrderIsUsedAgain) {
  Uneven kept;
  const GradientReducer first(communicator, kept);
  const auto group_of = [&](const GradientReducer& reducer) {
    return reducer.arena()->gradient_communicator(communicator).group();
  };
  std::vector<std::uint32_t> groups;
  for (int round = 0; round < 5; ++round) {
    Uneven network;
    GradientReducer reducer(communicator, network);
    groups.push_back(group_of(reducer));
    network.loss(0, 0, samples_of(communicator.rank(), 0)).backward();
    reducer.finish();
  }
  EXPECT_THAT(groups, ::testing::Each(groups.front()));
  if (communicator.size() > 1 && communicator.capabilities().concurrent) {
    EXPECT_NE(groups.front(), group_of(first));
  }
}

}  // namespace

}  // namespace kolo::testing
