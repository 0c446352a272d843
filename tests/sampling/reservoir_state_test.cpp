#include "kolo/sampling/reservoir.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "sampling/numbers.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::number_in;
using testing::Numbers;
using testing::numbers_at;
using testing::policies;
using testing::push;
using testing::room_for;

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
    for (int i = 0; i < 1000; ++i) reservoir.push(sample);
    EXPECT_LT(resident_bytes() - before, std::uint64_t{20} << 20);
    for (std::int64_t i = 0; i < 2 * reservoir.capacity(); ++i) {
      reservoir.push(sample);
      if (i % 1000 == 0) (void)reservoir.draw(100);
    }
    EXPECT_EQ(reservoir.size(), reservoir.capacity());
    EXPECT_LT(static_cast<double>(resident_bytes() - before), 1.05 * capacity_bytes);
  }
}

}  // namespace
}  // namespace kolo
