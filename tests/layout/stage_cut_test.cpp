#include "kolo/layout/stage_cut.h"

#include <algorithm>
#include <limits>
#include <random>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

std::vector<ChainStage> random_chain(std::mt19937_64& random, std::size_t count) {
  std::vector<ChainStage> stages;
  const auto number = [&random](unsigned bound) {
    return static_cast<std::int64_t>(random() % bound);
  };
  for (std::size_t i = 0; i < count; ++i) {
    stages.push_back({static_cast<double>(number(6)), number(5)});
  }
  return stages;
}

// Work of the largest part, and bytes between parts.
std::pair<double, std::int64_t> cost_of(const std::vector<ChainStage>& stages,
                                        const std::vector<std::size_t>& bounds) {
  double largest = 0;
  std::int64_t bytes = 0;
  for (std::size_t part = 0; part + 1 < bounds.size(); ++part) {
    double work = 0;
    for (auto stage = bounds[part]; stage < bounds[part + 1]; ++stage) work += stages[stage].work;
    largest = std::max(largest, work);
    if (part > 0) bytes += stages[bounds[part] - 1].bytes_after;
  }
  return {largest, bytes};
}

// Every cut of `count` stages into so many parts.
std::vector<std::vector<std::size_t>> all_bounds(std::size_t count, int parts) {
  std::vector<std::vector<std::size_t>> all;
  for (std::uint32_t chosen = 0; chosen < 1U << (count - 1); ++chosen) {
    std::vector<std::size_t> bounds{0};
    for (std::size_t i = 1; i < count; ++i) {
      if ((chosen >> (i - 1) & 1U) != 0) bounds.push_back(i);
    }
    bounds.push_back(count);
    if (std::ssize(bounds) == parts + 1) all.push_back(bounds);
  }
  return all;
}

TEST(StageCut, FindsTheBestOfAllCuts) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1500; ++i) {
    const auto count = 1 + random() % 9;
    const auto stages = random_chain(random, count);
    const auto parts = static_cast<int>(1 + random() % count);
    std::pair best{std::numeric_limits<double>::infinity(), std::int64_t{0}};
    for (const auto& bounds : all_bounds(count, parts))
      best = std::min(best, cost_of(stages, bounds));
    const auto found = cut_stages(stages, parts);
    EXPECT_EQ(cost_of(stages, found), best);
    EXPECT_EQ(std::ssize(found), parts + 1);
    EXPECT_EQ(std::ranges::adjacent_find(found, std::ranges::greater_equal{}), found.end());
  }
}

TEST(StageCut, OfEquallyFastCutsTheOneWithTheFewestBytes) {
  // The last part is the largest anyway, so the first two are cut where little goes over.
  const std::vector<ChainStage> stages{{1, 9}, {1, 2}, {1, 7}, {4, 3}};
  EXPECT_THAT(cut_stages(stages, 3), ElementsAre(0, 2, 3, 4));
}

TEST(StageCut, TheLeastWorkIsNotMissedByRounding) {
  std::mt19937_64 random(2);
  std::vector<ChainStage> stages(60);
  for (auto& stage : stages) {
    stage = {static_cast<double>(random() % 1000) / 997, static_cast<std::int64_t>(random() % 9)};
  }
  for (int parts = 1; parts <= 60; ++parts) {
    EXPECT_EQ(std::ssize(cut_stages(stages, parts)), parts + 1);
  }
}

TEST(StageCut, SaysHowManyPartsThereCanBe) {
  const std::vector<ChainStage> stages(4, {1, 1});
  const auto refusal = [&](int parts) {
    return message_of<InputError>([&] { (void)cut_stages(stages, parts); });
  };
  EXPECT_EQ(refusal(5), "pipeline: 4 stages can't be cut into 5 parts; ask for 4 parts or less");
  EXPECT_EQ(refusal(0), "pipeline: 0 parts, expected 1 or more");
}

TEST(StageCut, RefusesWhatIsNoCost) {
  const auto refusal = [](const ChainStage& stage) {
    return message_of<Error>([&] { (void)cut_stages(std::vector{stage}, 1); });
  };
  EXPECT_TRUE(says(refusal({-1}), {"stage 0 has work or a size that is negative"}));
  EXPECT_TRUE(says(refusal({std::numeric_limits<double>::quiet_NaN()}), {"not finite"}));
  EXPECT_TRUE(says(refusal({1, -1}), {"a size that is negative"}));
  constexpr auto huge = std::numeric_limits<std::int64_t>::max();
  const std::vector<ChainStage> stages(3, {1, huge});
  EXPECT_TRUE(says(message_of<Error>([&] { (void)cut_stages(stages, 3); }), {"size overflow"}));
}

}  // namespace
}  // namespace kolo::testing
