#include "kolo/sampling/reservoir.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <random>
#include <set>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "sampling/numbers.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using Outcome = Reservoir::Outcome;

TEST(Reservoir, HasRoomForWhatFitsTheCapacity) {
  ReservoirOptions options{.sample_bytes = 100, .capacity_bytes = 1000};
  EXPECT_EQ(reservoir_capacity(options), 10);
  options.capacity_bytes = 1099;
  EXPECT_EQ(reservoir_capacity(options), 10);
  options.policy = ReservoirPolicy::fifo;
  EXPECT_EQ(reservoir_capacity(options), 10);
  options.policy = ReservoirPolicy::keep_unseen;  // 108 bytes each
  EXPECT_EQ(reservoir_capacity(options), 10);
  options.capacity_bytes = 1079;
  EXPECT_EQ(reservoir_capacity(options), 9);
  options.capacity_bytes = 108;
  EXPECT_EQ(Reservoir(options).capacity(), 1);
}

TEST(Reservoir, RejectsOptions) {
  const auto memory = installed_memory();
  ASSERT_TRUE(memory);
  const std::vector<std::pair<ReservoirOptions, std::string>> refused{
      {{.sample_bytes = 0, .capacity_bytes = 10}, "samples of 0 bytes"},
      {{.sample_bytes = 100, .capacity_bytes = 99, .rank = 3},
       "(rank 3): a capacity of 99 bytes, expected at least 100"},
      {{.sample_bytes = 4, .capacity_bytes = 40, .minimum = 11},
       "a minimum of 11 samples before the first draw, expected 1 to 10"},
      {{.sample_bytes = 4, .capacity_bytes = 40, .minimum = 0}, "a minimum of 0"},
      {{.sample_bytes = 4, .capacity_bytes = 40, .reuse = -1}, "-1 draws per arrival"},
      {{.sample_bytes = 4, .capacity_bytes = 40, .rank = -1}, "the rank is negative"},
      {{.sample_bytes = 4, .capacity_bytes = *memory + 1},
       std::to_string(*memory + 1) + " bytes, but this machine has " + std::to_string(*memory)}};
  for (const auto& [options, reason] : refused)
    EXPECT_TRUE(says(message_of<InputError>([&] { (void)Reservoir(options); }), {reason}));
  const auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(says(message_of<Error>([&] {
                     (void)reservoir_capacity({.policy = ReservoirPolicy::keep_unseen,
                                               .sample_bytes = most,
                                               .capacity_bytes = most});
                   }),
                   {"overflow"}));
}

// Every set of 2 of 5 arrivals is equally likely, on every rank, whatever the other rank has kept.
TEST(Reservoir, UniformKeepsEverySetOfArrivalsAlike) {
  constexpr int arrivals = 5, seeds = 20'000;
  std::map<Numbers, double> kept[2];
  double same = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    Numbers of_rank[2];
    for (const int rank : {0, 1}) {
      auto options = room_for(2, ReservoirPolicy::uniform, seed);
      options.rank = rank;
      Reservoir reservoir(options);
      for (int number = 0; number < arrivals; ++number)
        EXPECT_EQ(push(reservoir, number) == Outcome::entered, number < 2);
      EXPECT_EQ(reservoir.state().arrivals, arrivals);
      of_rank[rank] = all_numbers(reservoir);
      ++kept[rank][of_rank[rank]];
    }
    if (of_rank[0] == of_rank[1]) ++same;
  }
  for (const auto& of_rank : kept) {
    EXPECT_EQ(of_rank.size(), 10U);
    std::vector<double> counts;
    for (const auto& [set, count] : of_rank) counts.push_back(count);
    EXPECT_LT(chi_square(counts, seeds / 10.), 30);  // 9 on average
  }
  EXPECT_NEAR(same / seeds, .1, .01);
}

TEST(Reservoir, UniformCountsArrivalsBeyond32Bits) {
  auto options = room_for(1, ReservoirPolicy::uniform);
  options.sample_bytes = 1;
  options.capacity_bytes = std::int64_t{1} << 22;
  Reservoir reservoir(options);
  const auto restore = [&](std::int64_t arrivals) {
    std::ranges::fill(reservoir.restore({.arrivals = arrivals, .size = reservoir.capacity()}),
                      std::byte{0});
  };
  const auto count_replaced = [&] {
    const std::array<std::byte, 1> sample{std::byte{1}};
    int replaced = 0;
    for (int i = 0; i < 1'000'000; ++i) replaced += push(reservoir, sample) == Outcome::replaced;
    return replaced;
  };
  restore((std::int64_t{1} << 33) + 5);  // each has a chance of 1 in 2048
  const int replaced = count_replaced();
  EXPECT_GT(replaced, 380);
  EXPECT_LT(replaced, 600);
  const auto ones = std::ranges::count(reservoir.contents(), std::byte{1});
  EXPECT_NEAR(ones, replaced, 3);  // in different slots, but for few
  restore(std::int64_t{1} << 52);
  EXPECT_EQ(count_replaced(), 0);
}

TEST(Reservoir, FifoKeepsTheNewest) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    const auto room = static_cast<std::int64_t>(1 + random() % 20);
    SCOPED_TRACE(::testing::Message() << "round " << round << ", room for " << room);
    Reservoir reservoir(room_for(room, ReservoirPolicy::fifo));
    std::deque<std::int64_t> expected;
    for (std::int64_t number = 0; number < 60; ++number) {
      const bool full = reservoir.size() == room;
      EXPECT_EQ(push(reservoir, number), full ? Outcome::replaced : Outcome::entered);
      expected.push_back(number);
      if (full) expected.pop_front();
      EXPECT_EQ(all_numbers(reservoir), Numbers(expected.begin(), expected.end()));
      (void)reservoir.draw(1);
    }
  }
}

// Model of keep_unseen in the plainest way.
struct KeepUnseenModel {
  std::set<std::int64_t> unseen;
  std::deque<std::int64_t> seen;  // by their first draw

  void draw(const Numbers& numbers) {
    for (const auto number : numbers)
      if (unseen.erase(number) > 0) seen.push_back(number);
  }
  [[nodiscard]] Numbers all() const {
    Numbers numbers(unseen.begin(), unseen.end());
    numbers.insert(numbers.end(), seen.begin(), seen.end());
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }
};

TEST(Reservoir, KeepUnseenLosesNothingUndrawn) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 100; ++round) {
    const auto room = static_cast<std::int64_t>(1 + random() % 30);
    const auto options = room_for(room, ReservoirPolicy::keep_unseen, random());
    SCOPED_TRACE(::testing::Message() << "seed " << options.seed << ", room for " << room);
    Reservoir reservoir(options);
    KeepUnseenModel model;
    std::int64_t number = 0;
    for (int i = 0; i < 200; ++i) {
      if (random() % 3 > 0 || reservoir.size() == 0) {
        const auto outcome = push(reservoir, number);
        if (reservoir.size() == room && outcome != Outcome::entered) {
          EXPECT_EQ(outcome, model.seen.empty() ? Outcome::refused : Outcome::replaced);
        }
        if (outcome == Outcome::replaced) model.seen.pop_front();
        if (outcome != Outcome::refused) model.unseen.insert(number++);
      } else {
        const auto count =
            static_cast<std::int64_t>(1 + random() % static_cast<std::uint64_t>(reservoir.size()));
        const auto drawn = numbers_at(reservoir, reservoir.draw(count));
        const auto unseen = static_cast<std::int64_t>(model.unseen.size());
        EXPECT_EQ(
            std::ranges::count_if(drawn, [&](auto each) { return model.unseen.contains(each); }),
            std::min(count, unseen));
        EXPECT_EQ(std::set(drawn.begin(), drawn.end()).size(), drawn.size());
        model.draw(drawn);
      }
      ASSERT_EQ(all_numbers(reservoir), model.all());
      EXPECT_EQ(reservoir.state().seen, static_cast<std::int64_t>(model.seen.size()));
      EXPECT_EQ(reservoir.state().arrivals, number);
    }
  }
}

TEST(Reservoir, RejectsArguments) {
  Reservoir reservoir(room_for(3, ReservoirPolicy::fifo));
  push(reservoir, 1);
  EXPECT_TRUE(says(message_of<Error>([&] { (void)reservoir.sample(1); }), {"sample 1"}));
  EXPECT_THROW((void)reservoir.sample(-1), Error);
  EXPECT_THROW((void)reservoir.draw(-1), Error);
}

}  // namespace
}  // namespace kolo::testing
