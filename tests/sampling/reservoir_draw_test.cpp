#include "kolo/sampling/reservoir.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <vector>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "sampling/numbers.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo {
namespace {

using testing::chi_square;
using ::testing::IsEmpty;
using testing::message_of;
using testing::policies;
using testing::push;
using testing::room_for;
using Outcome = Reservoir::Outcome;

TEST(ReservoirDraw, DrawsAllAlike) {
  constexpr int room = 10, batches = 20'000;
  for (const auto policy : policies) {
    SCOPED_TRACE(name_of(policy));
    auto options = room_for(room, policy);
    options.seed = 11;
    Reservoir reservoir(options);
    for (int number = 0; number < room; ++number) push(reservoir, number);
    (void)reservoir.draw(room);  // so that all are seen
    std::vector<double> first(room), second(room);
    std::map<std::set<std::int64_t>, double> sets;
    for (int i = 0; i < batches; ++i) {
      const auto drawn = reservoir.draw(2);
      ++first[static_cast<std::size_t>(drawn[0])];
      ++second[static_cast<std::size_t>(drawn[1])];
      ++sets[std::set(drawn.begin(), drawn.end())];
    }
    EXPECT_LT(chi_square(first, batches / 10.), 30);  // 9 on average
    EXPECT_LT(chi_square(second, batches / 10.), 30);
    EXPECT_EQ(sets.size(), 45U);  // pairs of different ones
    std::vector<double> counts;
    for (const auto& [set, count] : sets) counts.push_back(count);
    EXPECT_LT(chi_square(counts, batches / 45.), 85);  // 44 on average
  }
}

TEST(ReservoirDraw, DrawsMoreThanItHasEquallyOften) {
  for (const auto policy : policies) {
    SCOPED_TRACE(name_of(policy));
    Reservoir reservoir(room_for(7, policy));
    for (int number = 0; number < 7; ++number) push(reservoir, number);
    const auto drawn = reservoir.draw(7 * 3 + 2);
    std::vector<int> counts(7);
    for (const auto slot : drawn) ++counts[static_cast<std::size_t>(slot)];
    EXPECT_EQ(std::ranges::count(counts, 3), 5);
    EXPECT_EQ(std::ranges::count(counts, 4), 2);
    for (int round = 0; round < 3; ++round) {
      const auto begin = drawn.begin() + 7 * round;
      EXPECT_EQ(std::set(begin, begin + 7).size(), 7U);
    }
    EXPECT_EQ(reservoir.state().draws, 23);
    EXPECT_THAT(reservoir.draw(0), IsEmpty());
  }
}

TEST(ReservoirDraw, DrawsFromTheMinimumOn) {
  auto options = room_for(5, ReservoirPolicy::uniform);
  options.minimum = 3;
  Reservoir reservoir(options);
  EXPECT_EQ(reservoir.draws_left(), 0);
  push(reservoir, 0);
  push(reservoir, 1);
  EXPECT_EQ(reservoir.draws_left(), 0);
  EXPECT_TRUE(says(message_of<Error>([&] { (void)reservoir.draw(1); }),
                   {"1 samples were asked for, expected 0 to 0: it has 2 samples (minimum 3)"}));
  EXPECT_EQ(reservoir.state().draws, 0);
  push(reservoir, 2);
  EXPECT_EQ(reservoir.draws_left(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(reservoir.draw(2).size(), 2U);
}

TEST(ReservoirDraw, ReusesNoMoreThanItMay) {
  auto options = room_for(2, ReservoirPolicy::uniform);
  options.reuse = 3;
  Reservoir reservoir(options);
  for (int number = 0; number < 4; ++number) push(reservoir, number);  // two passed over, or lost
  EXPECT_EQ(reservoir.draws_left(), 12);
  (void)reservoir.draw(10);
  EXPECT_EQ(reservoir.draws_left(), 2);
  EXPECT_THROW((void)reservoir.draw(3), Error);
  (void)reservoir.draw(2);
  EXPECT_EQ(reservoir.draws_left(), 0);
  push(reservoir, 4);
  EXPECT_EQ(reservoir.draws_left(), 3);

  options.reuse = std::numeric_limits<std::int64_t>::max();
  Reservoir unbounded(options);
  for (int number = 0; number < 4; ++number) push(unbounded, number);
  EXPECT_EQ(unbounded.draws_left(), std::numeric_limits<std::int64_t>::max());
}

TEST(ReservoirDraw, KeepUnseenAlwaysGoesOn) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    const auto room = static_cast<std::int64_t>(1 + random() % 20);
    const auto batch = static_cast<std::int64_t>(1 + random() % static_cast<std::uint64_t>(room));
    auto options = room_for(room, ReservoirPolicy::keep_unseen);
    options.reuse = static_cast<std::int64_t>(1 + random() % 3);
    options.seed = random();
    SCOPED_TRACE(::testing::Message() << "seed " << options.seed << ", room for " << room
                                      << ", batch " << batch << ", reuse " << options.reuse);
    Reservoir reservoir(options);
    for (int i = 0; i < 300; ++i) {
      const bool may_draw = reservoir.draws_left() >= batch;
      if (may_draw && random() % 2 == 0) {
        (void)reservoir.draw(batch);
      } else if (push(reservoir, i) == Outcome::refused) {
        ASSERT_TRUE(may_draw);
        (void)reservoir.draw(batch);
      }
    }
  }
}

}  // namespace
}  // namespace kolo
