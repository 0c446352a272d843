#include "kolo/parallel/bucket_plan.h"

#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/base/random.h"

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

// Whatever the parameters: every one lies in exactly one bucket, aligned, without overlap, in an
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
  for (const auto& wrong : {std::vector<std::size_t>{0, 1}, {0, 1, 1}, {0, 1, 3}})
    EXPECT_THROW((void)plan_buckets(parameters, {1, 1}, wrong), Error);
}

}  // namespace
}  // namespace kolo
