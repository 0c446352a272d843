#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/sampling/reservoir.h"
#include "sampling/numbers.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using Outcome = Reservoir::Outcome;

TEST(ReservoirDraw, DrawsAllAlike) {
  constexpr int room = 10, batches = 20'000;
  for (const auto policy : policies) {
    SCOPED_TRACE(name_of(policy));
    Reservoir reservoir(room_for(room, policy, 11));
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

// One arrival or draw, by chance; what came of it.
Numbers one_step(Reservoir& reservoir, std::mt19937_64& random) {
  if (reservoir.size() == 0 || random() % 3 > 0)
    return {static_cast<std::int64_t>(push(reservoir, static_cast<std::int64_t>(random())))};
  auto slots = reservoir.draw(static_cast<std::int64_t>(1 + random() % 8));
  const auto numbers = numbers_at(reservoir, slots);
  slots.insert(slots.end(), numbers.begin(), numbers.end());
  return slots;
}

TEST(ReservoirState, GoesOnFromWhatWasSaved) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 150; ++round) {
    auto options = room_for(static_cast<std::int64_t>(1 + random() % 25), policies[random() % 3]);
    options.seed = random();
    options.rank = static_cast<int>(random() % 5);
    SCOPED_TRACE(::testing::Message() << name_of(options.policy) << ", seed " << options.seed);
    Reservoir reservoir(options);
    const auto moment = random() % 150;
    for (std::uint64_t step = 0; step < moment; ++step) one_step(reservoir, random);

    Reservoir restored(options);
    for (auto step = random() % 30; step > 0; --step) one_step(restored, random);  // forgotten
    const auto contents = restored.restore(reservoir.state(), reservoir.order());
    ASSERT_EQ(contents.size(), reservoir.contents().size());
    std::ranges::copy(reservoir.contents(), contents.begin());

    auto same = random;
    for (int step = 0; step < 150; ++step)
      ASSERT_EQ(one_step(restored, same), one_step(reservoir, random)) << "step " << step;
    EXPECT_EQ(restored.state(), reservoir.state());
    EXPECT_TRUE(std::ranges::equal(restored.contents(), reservoir.contents()));
    EXPECT_TRUE(std::ranges::equal(restored.order(), reservoir.order()));
  }
}

TEST(ReservoirState, RefusesStatesThatCanNotBe) {
  Reservoir reservoir(room_for(3, ReservoirPolicy::keep_unseen));
  push(reservoir, 42);
  const auto message = [&](const ReservoirState& state, const Numbers& order = {}) {
    return message_of<InputError>([&] { (void)reservoir.restore(state, order); });
  };
  EXPECT_TRUE(says(message({.arrivals = 4, .size = 4}),
                   {"4 samples were saved, but the capacity has room for 3"}));
  const auto wrong = HasSubstr("a saved state that can't be");
  EXPECT_THAT(message({.arrivals = 1, .size = 2}), wrong);
  EXPECT_THAT(message({.arrivals = 3, .draws = -1, .size = 3}), wrong);
  EXPECT_THAT(message({.arrivals = 3, .size = -1}), wrong);
  EXPECT_THAT(message({.arrivals = 3, .size = 2, .seen = 3}), wrong);
  EXPECT_TRUE(says(message({.arrivals = 3, .size = 2, .first = 1}),
                   {"begins at 1, as only in a full reservoir"}));
  EXPECT_THAT(message({.arrivals = 3, .size = 3, .first = 3}), wrong);
  EXPECT_THAT(message({.arrivals = 3, .size = 3, .deals = -1}), wrong);
  EXPECT_TRUE(says(message({.arrivals = 3, .size = 3}, {0, 1}), {"order of 2 samples"}));
  EXPECT_TRUE(says(message({.arrivals = 3, .size = 3}, {0, 1, 1}), {"slot 1 twice"}));
  EXPECT_TRUE(says(message({.arrivals = 3, .size = 3}, {0, 1, 3}), {"slot 3"}));
  EXPECT_EQ(reservoir.state(), (ReservoirState{.arrivals = 1, .size = 1}));
  EXPECT_EQ(number_in(reservoir, 0), 42);

  Reservoir uniform(room_for(3, ReservoirPolicy::uniform));
  EXPECT_THROW((void)uniform.restore({.arrivals = 3, .size = 3, .seen = 1}), InputError);
  EXPECT_THROW((void)uniform.restore({.arrivals = 3, .size = 3, .first = 1}), InputError);
}

TEST(ReservoirState, TakesMemoryAsSamplesCome) {
  constexpr std::int64_t sample_bytes = 1000, capacity_bytes = std::int64_t{100} << 20;
  for (const auto policy : policies) {
    SCOPED_TRACE(name_of(policy));
    const auto before = resident_bytes();
    Reservoir reservoir(
        {.policy = policy, .sample_bytes = sample_bytes, .capacity_bytes = capacity_bytes});
    const std::vector<std::byte> sample(sample_bytes, std::byte{1});
    for (int i = 0; i < 1000; ++i) push(reservoir, sample);
    EXPECT_LT(resident_bytes() - before, std::uint64_t{20} << 20);
    for (std::int64_t i = 0; i < 2 * reservoir.capacity(); ++i) {
      push(reservoir, sample);
      if (i % 1000 == 0) (void)reservoir.draw(100);
    }
    EXPECT_EQ(reservoir.size(), reservoir.capacity());
    EXPECT_LT(static_cast<double>(resident_bytes() - before), 1.05 * capacity_bytes);
  }
}

}  // namespace
}  // namespace kolo::testing
