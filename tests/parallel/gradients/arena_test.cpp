// Plans of buckets, and the arenas that are laid out by them.
#include <set>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/base/random.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/bucket_plan.h"
#include "kolo/parallel/gradient_reducer.h"
#include "parallel/small_network.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo {
namespace {

ParameterDescription parameter(std::string name, std::vector<std::int64_t> shape,
                               DataType type = DataType::float32) {
  return {std::move(name), std::move(shape), type};
}

TEST(BucketPlan, LastParametersComeFirstAndTheFirstBucketIsSmall) {
  const auto plan = plan_buckets(
      {parameter("a", {100}), parameter("b", {100}), parameter("c", {100}), parameter("d", {100})},
      {.first_bytes = 400, .bytes = 800});
  ASSERT_EQ(plan.buckets.size(), 3U);
  EXPECT_EQ(plan.buckets[0].entries[0].parameter, 3U);
  EXPECT_EQ(plan.buckets[0].entries.size(), 1U);
  EXPECT_EQ(plan.buckets[1].entries.size(), 2U);
  EXPECT_EQ(plan.buckets[1].entries[0].parameter, 2U);
}

TEST(BucketPlan, TypesDoNotMix) {
  const auto plan = plan_buckets(
      {parameter("a", {4}), parameter("b", {4}, DataType::float64), parameter("c", {4})});
  ASSERT_EQ(plan.buckets.size(), 3U);
  EXPECT_EQ(plan.buckets[1].type, DataType::float64);
}

TEST(BucketPlan, NoParametersNoBuckets) {
  EXPECT_EQ(plan_buckets({}).total_bytes, 0);
}

TEST(BucketPlan, RefusesBucketsOfNothing) {
  EXPECT_THROW((void)plan_buckets({}, {.first_bytes = 0}), Error);
}

// Every parameter, of whatever kind, lies in exactly one bucket, aligned, without overlap, in an
// order that never goes forward.
TEST(BucketPlan, RandomParametersAreLaidOutSoundly) {
  CounterRandom random(5, 0, 0);
  for (int round = 0; round < 50; ++round) {
    std::vector<ParameterDescription> parameters;
    for (std::uint32_t i = 0, n = random.below(30); i < n; ++i) {
      const auto type = random.below(2) ? DataType::float32 : DataType::float64;
      parameters.push_back(
          parameter(fmt::format("p{}", i), {random.below(9), random.below(300)}, type));
    }
    const BucketLimits limits{1 + random.below(2000), 1 + random.below(9000)};
    const auto plan = plan_buckets(parameters, limits);
    std::size_t next = parameters.size();
    std::int64_t end_of_last = 0;
    for (const Bucket& bucket : plan.buckets) {
      EXPECT_EQ(bucket.offset_bytes, end_of_last);
      EXPECT_EQ(bucket.offset_bytes % 64, 0);
      std::int64_t free = 0;
      for (const auto& entry : bucket.entries) {
        EXPECT_EQ(entry.parameter, --next);
        EXPECT_GE(entry.offset, free);
        EXPECT_EQ(entry.offset * static_cast<std::int64_t>(size_of(bucket.type)) % 64, 0);
        EXPECT_EQ(entry.count, parameters[entry.parameter].count());
        EXPECT_EQ(bucket.type, parameters[entry.parameter].type);
        free = entry.offset + entry.count;
      }
      EXPECT_LE(free, bucket.count);
      end_of_last += bucket.count * static_cast<std::int64_t>(size_of(bucket.type));
    }
    EXPECT_EQ(next, 0U);
    EXPECT_EQ(plan.total_bytes, end_of_last);
    EXPECT_EQ(plan.fingerprint(), plan_buckets(parameters, limits).fingerprint());
  }
}

TEST(BucketPlan, TheFingerprintSeesNamesShapesTypesAndLimits) {
  const std::vector<ParameterDescription> base = {parameter("a", {6}), parameter("b", {500})};
  std::set<std::uint64_t> prints = {plan_buckets(base).fingerprint()};
  prints.insert(plan_buckets({parameter("A", {6}), base[1]}).fingerprint());
  prints.insert(plan_buckets({parameter("a", {2, 3}), base[1]}).fingerprint());
  prints.insert(plan_buckets({parameter("a", {6}, DataType::float64), base[1]}).fingerprint());
  prints.insert(plan_buckets({base[0]}).fingerprint());
  prints.insert(plan_buckets(base, {.first_bytes = 100}).fingerprint());
  EXPECT_EQ(prints.size(), 6U);
}

TEST(BucketPlan, AGivenOrderIsKept) {
  const std::vector<ParameterDescription> parameters = {
      parameter("a", {100}), parameter("b", {100}), parameter("c", {100})};
  const std::vector<std::size_t> order = {1, 2, 0}, reversed = {2, 1, 0};
  const auto plan = plan_buckets(parameters, {1, 1}, order);
  ASSERT_EQ(plan.buckets.size(), 3U);
  for (std::size_t bucket = 0; bucket < 3; ++bucket)
    EXPECT_EQ(plan.buckets[bucket].entries.front().parameter, order[bucket]);
  EXPECT_EQ(plan.total_bytes, plan_buckets(parameters, {1, 1}).total_bytes);
  EXPECT_NE(plan.fingerprint(), plan_buckets(parameters, {1, 1}).fingerprint());
  EXPECT_EQ(plan_buckets(parameters, {1, 1}, reversed).fingerprint(),
            plan_buckets(parameters, {1, 1}).fingerprint());
}

}  // namespace
}  // namespace kolo

namespace kolo::testing {

namespace {

const BucketLimits one_bucket_each{1, 1};  // every parameter has a bucket of its own

RANK_TEST(Arena, KeepsValuesAndBroadcasts) {
  for (const bool is_frozen : {false, true}) {
    SmallNetwork network(7, 10 + communicator.rank());
    const SmallNetwork of_root(7, 10), untouched(7, 10 + communicator.rank());
    network.first->weight.set_requires_grad(!is_frozen);
    network.calls.fill_(communicator.rank());
    ParameterArena arena(communicator, network, one_bucket_each);
    EXPECT_EQ(arena.buckets(), is_frozen ? 3U : 4U);
    expect_parameters(network, untouched.parameters());
    arena.broadcast_parameters(communicator);
    broadcast_outside_arena(communicator, network);
    expect_parameters(network, of_root.parameters());
    EXPECT_TRUE(network.calls.eq(0).all().item<bool>());
  }
}

// A parameter whose memory is dense but transposed keeps its strides, and so does its gradient.
RANK_TEST(Arena, ATransposedParameterTrainsAlike) {
  SmallNetwork network, reference;
  network.first->weight.set_data(network.first->weight.t().contiguous().t());
  const auto strides = network.first->weight.strides().vec();
  for (SmallNetwork* const each : {&network, &reference}) {
    const auto arena = std::make_shared<ParameterArena>(communicator, *each, one_bucket_each);
    GradientReducer reducer(communicator, arena);
    ArenaOptimizer optimizer(arena, make_adam({}));
    for (std::int64_t step = 0; step < 3; ++step) {
      reducer.clear_gradients();
      const auto begin = (step * communicator.size() + communicator.rank()) * 4;
      mean_loss(*each, samples(begin, begin + 4)).backward();
      reducer.finish();
      for (std::size_t bucket = 0; bucket < arena->buckets(); ++bucket)
        optimizer.update(bucket, .02, step + 1);
    }
    EXPECT_EQ(optimizer.named_state().front().tensor.sizes(), each->first->weight.sizes());
  }
  EXPECT_EQ(network.first->weight.strides(), strides);
  EXPECT_EQ(network.first->weight.grad().strides(), strides);
  expect_parameters(network, reference.parameters(), 1e-5, 1e-7);
}

RANK_TEST(Arena, DifferentModelsAreNamed) {
  if (communicator.size() == 1) return;
  SmallNetwork network(communicator.rank() == communicator.size() - 1 ? 8 : 7);
  const auto last = std::to_string(communicator.size() - 1);
  EXPECT_TRUE(says(message_of<Error>([&] { ParameterArena arena(communicator, network); }),
                   {"rank 0 has first.weight float32 [7, 5], rank " + last +
                    " has first.weight float32 [8, 5]"}));
}

}  // namespace

}  // namespace kolo::testing
