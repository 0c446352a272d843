#include "kolo/layout/stage_cut.h"

#include <algorithm>
#include <limits>
#include <random>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/errors.h"

namespace kolo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

std::vector<ChainStage> random_chain(std::mt19937_64& random, std::size_t count) {
  std::vector<ChainStage> stages;
  const auto number = [&random](unsigned bound) {
    return static_cast<std::int64_t>(random() % bound);
  };
  for (std::size_t i = 0; i < count; ++i) {
    stages.push_back({static_cast<double>(number(6)), number(5), number(6), number(3)});
  }
  return stages;
}

StageCut measured(const std::vector<ChainStage>& stages, const StageCutOptions& options,
                  const std::vector<std::size_t>& bounds) {
  StageCut cut{bounds};
  for (std::size_t part = 0; part + 1 < bounds.size(); ++part) {
    double seconds = 0;
    std::int64_t memory = 0;
    for (auto stage = bounds[part]; stage < bounds[part + 1]; ++stage) {
      seconds += stages[stage].seconds;
      memory += stages[stage].memory_bytes;
      if (options.kept_micro_batches.empty()) continue;
      memory += stages[stage].kept_bytes * options.kept_micro_batches[part];
    }
    cut.largest_seconds = std::max(cut.largest_seconds, seconds);
    cut.largest_memory = std::max(cut.largest_memory, memory);
    if (part > 0) cut.bytes_between += stages[bounds[part] - 1].bytes_after;
  }
  return cut;
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
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    const auto count = 1 + random() % 9;
    const auto stages = random_chain(random, count);
    StageCutOptions options{static_cast<int>(1 + random() % count)};
    if (random() % 2 == 0) options.memory_limit = static_cast<std::int64_t>(random() % 25);
    if (random() % 2 == 0) {
      for (int part = 0; part < options.parts; ++part) {
        options.kept_micro_batches.push_back(options.parts - part);
      }
    }
    std::optional<StageCut> best;
    auto least_memory = std::numeric_limits<std::int64_t>::max();
    for (const auto& bounds : all_bounds(count, options.parts)) {
      const auto cut = measured(stages, options, bounds);
      least_memory = std::min(least_memory, cut.largest_memory);
      if (options.memory_limit && cut.largest_memory > *options.memory_limit) continue;
      if (best && std::pair(best->largest_seconds, best->bytes_between) <=
                      std::pair(cut.largest_seconds, cut.bytes_between))
        continue;
      best = cut;
    }
    if (!best) {
      ++refused;
      EXPECT_THAT(message_of<InputError>([&] { (void)cut_stages(stages, options); }),
                  HasSubstr("takes " + std::to_string(least_memory) + " bytes however"));
      continue;
    }
    const auto found = cut_stages(stages, options);
    EXPECT_EQ(found.largest_seconds, best->largest_seconds);
    EXPECT_EQ(found.bytes_between, best->bytes_between);
    EXPECT_EQ(found, measured(stages, options, found.bounds));
    EXPECT_EQ(std::ssize(found.bounds), options.parts + 1);
    EXPECT_LE(found.largest_memory,
              options.memory_limit.value_or(std::numeric_limits<std::int64_t>::max()));
  }
  EXPECT_GT(refused, 50);
}

TEST(StageCut, OfEquallyFastCutsTheOneWithTheFewestBytes) {
  // The last part is the largest anyway, so the first two are cut where little goes over.
  const std::vector<ChainStage> stages{{1, 9}, {1, 2}, {1, 7}, {4, 3}};
  EXPECT_THAT(cut_stages(stages, {3}).bounds, ElementsAre(0, 2, 3, 4));
  EXPECT_EQ(cut_stages(stages, {3}).bytes_between, 9);
}

TEST(StageCut, ATimeLimitIsNotBrokenByRounding) {
  std::mt19937_64 random(2);
  std::vector<ChainStage> stages(60);
  for (auto& stage : stages) {
    stage = {static_cast<double>(random() % 1000) / 997, static_cast<std::int64_t>(random() % 9)};
  }
  for (int parts = 1; parts <= 60; ++parts) {
    EXPECT_EQ(std::ssize(cut_stages(stages, {parts}).bounds), parts + 1);
  }
}

TEST(StageCut, FirstPartsKeepMoreMicroBatches) {
  const std::vector<ChainStage> stages(6, {1, 1, 0, 10});
  EXPECT_THAT(cut_stages(stages, {2}).bounds, ElementsAre(0, 3, 6));
  EXPECT_THAT(cut_stages(stages, {2, 40, {2, 1}}).bounds, ElementsAre(0, 2, 6));
}

TEST(StageCut, SaysWhatWouldFit) {
  const auto refusal = [](const std::vector<ChainStage>& stages, const StageCutOptions& options) {
    return message_of<InputError>([&] { (void)cut_stages(stages, options); });
  };
  const std::vector<ChainStage> stages(4, {1, 1, 10, 1});
  EXPECT_EQ(refusal(stages, {5}),
            "pipeline: 4 stages can't be cut into 5 parts; ask for 4 parts or less (ranks times "
            "chunks per rank)");
  EXPECT_EQ(refusal(stages, {2, 15}),
            "pipeline: 2 parts of at most 15 bytes each: the largest takes 20 bytes however they "
            "are cut; 4 parts would do");
  EXPECT_EQ(refusal(stages, {2, 9}),
            "pipeline: 2 parts of at most 9 bytes each: the largest takes 20 bytes however they "
            "are cut, and of all 4 stages by themselves 10");
  EXPECT_EQ(refusal(stages, {2, 21, {2, 1}}),
            "pipeline: 2 parts of at most 21 bytes each: the largest takes 24 bytes however they "
            "are cut");
  EXPECT_EQ(refusal(stages, {0}), "pipeline: 0 parts, expected 1 or more");
}

TEST(StageCut, RefusesWhatIsNoCost) {
  const auto refusal = [](const ChainStage& stage, const StageCutOptions& options) {
    return message_of<Error>([&] { (void)cut_stages(std::vector{stage}, options); });
  };
  EXPECT_THAT(refusal({-1}, {1}), HasSubstr("stage 0 has a time or a size that is negative"));
  EXPECT_THAT(refusal({std::numeric_limits<double>::quiet_NaN()}, {1}), HasSubstr("not finite"));
  EXPECT_THAT(refusal({1, 0, 0, -1}, {1}), HasSubstr("a size that is negative"));
  EXPECT_THAT(refusal({1}, {1, std::nullopt, {1, 1}}), HasSubstr("kept by 2 parts, expected 1"));
  constexpr auto huge = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(refusal({1, 0, huge, 1}, {1, std::nullopt, {1}}), HasSubstr("size overflow"));
}

}  // namespace
}  // namespace kolo
