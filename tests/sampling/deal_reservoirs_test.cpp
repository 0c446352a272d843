#include "kolo/sampling/deal_reservoirs.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <numeric>
#include <random>
#include <set>

#include "kolo/base/error.h"
#include "sampling/numbers.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

// The reservoirs of several ranks, of numbers.
class Ranks {
 public:
  Ranks(ReservoirOptions options, int ranks) {
    for (options.rank = 0; options.rank < ranks; ++options.rank) reservoirs_.emplace_back(options);
  }

  Reservoir& operator[](std::size_t rank) { return reservoirs_[rank]; }
  [[nodiscard]] std::vector<SavedReservoir> saved() const {
    std::vector<SavedReservoir> saved;
    for (const auto& each : reservoirs_) saved.push_back({each.state(), each.order()});
    return saved;
  }

  bool push(std::size_t rank, std::int64_t number) {
    return testing::push(reservoirs_[rank], number) != Reservoir::Outcome::refused;
  }
  [[nodiscard]] std::int64_t number(DealtSample sample) const {
    return number_in(reservoirs_[static_cast<std::size_t>(sample.rank)], sample.slot);
  }
  // In order of size.
  [[nodiscard]] Numbers numbers(std::size_t rank) const {
    return testing::all_numbers(reservoirs_[rank]);
  }
  [[nodiscard]] Numbers all_numbers() const {
    Numbers all;
    for (const auto& each : reservoirs_)
      std::ranges::copy(testing::all_numbers(each), std::back_inserter(all));
    std::ranges::sort(all);
    return all;
  }

  // The samples of these ranks, dealt to others.
  [[nodiscard]] Ranks dealt(ReservoirOptions options, int ranks) const {
    Ranks others(options, ranks);
    const auto all = saved();
    for (options.rank = 0; options.rank < ranks; ++options.rank) {
      const auto mine = deal_reservoirs(all, options, ranks);
      auto& reservoir = others[static_cast<std::size_t>(options.rank)];
      auto place = reservoir.restore(mine.state);
      EXPECT_EQ(place.size(), mine.samples.size() * 8);
      for (std::size_t i = 0; i < mine.samples.size(); ++i) {
        const auto own = number(mine.samples[i]);
        std::memcpy(place.data() + i * 8, &own, 8);
      }
    }
    return others;
  }

 private:
  std::vector<Reservoir> reservoirs_;
};

// Arrivals 0, 1, 2, ... to ranks in turn or by chance, with draws between them.
Ranks filled(const ReservoirOptions& options, int ranks, int arrivals, std::mt19937_64& random) {
  Ranks reservoirs(options, ranks);
  for (int number = 0; number < arrivals; ++number) {
    const auto rank = random() % static_cast<std::uint64_t>(ranks);
    reservoirs.push(rank, number);
    if (random() % 4 == 0) (void)reservoirs[rank].draw(1);
  }
  return reservoirs;
}

template <typename Member>
std::int64_t total(const std::vector<SavedReservoir>& saved, Member member) {
  std::int64_t sum = 0;
  for (const auto& each : saved) sum += each.state.*member;
  return sum;
}

TEST(DealReservoirs, NothingIsLostWhereThereIsRoom) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const auto options =
        room_for(static_cast<std::int64_t>(1 + random() % 20), policies[random() % 3], random());
    const auto before = static_cast<int>(1 + random() % 5);
    const auto after = static_cast<int>(before + static_cast<int>(random() % 5));
    SCOPED_TRACE(::testing::Message() << name_of(options.policy) << ", seed " << options.seed
                                      << ", " << before << " to " << after << " ranks");
    auto old = filled(options, before, static_cast<int>(random() % 200), random);
    const auto saved = old.saved();
    auto dealt = old.dealt(options, after);
    EXPECT_EQ(dealt.all_numbers(), old.all_numbers());
    const auto states = dealt.saved();
    EXPECT_EQ(total(states, &ReservoirState::arrivals), total(saved, &ReservoirState::arrivals));
    EXPECT_EQ(total(states, &ReservoirState::draws), total(saved, &ReservoirState::draws));
    EXPECT_EQ(total(states, &ReservoirState::seen), total(saved, &ReservoirState::seen));
    for (const auto& each : states) {
      EXPECT_LE(std::abs(each.state.size - states[0].state.size), 1);
      EXPECT_EQ(each.state.deals, 1);
    }
    auto again = dealt.dealt(options, after);
    EXPECT_EQ(again.saved()[0].state.deals, 2);
    EXPECT_EQ(again.all_numbers(), old.all_numbers());
  }
}

TEST(DealReservoirs, FewerRanksKeepAsManyAsFit) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 300; ++round) {
    const auto room = static_cast<std::int64_t>(1 + random() % 20);
    const auto options = room_for(
        room, random() % 2 == 0 ? ReservoirPolicy::uniform : ReservoirPolicy::fifo, random());
    const auto before = static_cast<int>(1 + random() % 5),
               after = static_cast<int>(1 + random() % 5);
    SCOPED_TRACE(::testing::Message() << name_of(options.policy) << ", seed " << options.seed
                                      << ", " << before << " to " << after << " ranks");
    auto old = filled(options, before, static_cast<int>(random() % 200), random);
    const auto numbers = old.all_numbers();
    const auto kept = old.dealt(options, after).all_numbers();
    EXPECT_EQ(kept.size(), std::min(numbers.size(), static_cast<std::size_t>(room * after)));
    EXPECT_EQ(std::set(kept.begin(), kept.end()).size(), kept.size());
    EXPECT_TRUE(std::includes(numbers.begin(), numbers.end(), kept.begin(), kept.end()));
  }
}

TEST(DealReservoirs, FifoKeepsTheNewestAndTheirOrder) {
  const auto options = room_for(10, ReservoirPolicy::fifo);
  Ranks old(options, 3);
  for (int number = 0; number < 69; ++number)
    old.push(static_cast<std::size_t>(number % 3), number);
  auto dealt = old.dealt(options, 2);
  Numbers newest(20);
  std::iota(newest.begin(), newest.end(), 69 - 20);
  // 48, 49, 50 came last but six to their ranks; of these, the first ranks' stay.
  const auto kept = dealt.all_numbers();
  EXPECT_TRUE(std::includes(kept.begin(), kept.end(), newest.begin() + 2, newest.end()));
  for (const std::size_t rank : {0, 1}) {
    const auto left = dealt.numbers(rank);
    // The next arrivals replace them from the oldest on, but for the ranks that they came to.
    for (std::size_t i = 0; i < 4; ++i) dealt.push(rank, 1000);
    const auto now = dealt.numbers(rank);
    EXPECT_EQ(std::ranges::count(now, 1000), 4);
    EXPECT_LE(left[3], now[0]);
  }
}

TEST(DealReservoirs, KeepUnseenKeepsAllThatWereNeverDrawn) {
  std::mt19937_64 random(3);
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    const auto room = static_cast<std::int64_t>(1 + random() % 20);
    const auto options = room_for(room, ReservoirPolicy::keep_unseen, random());
    const auto before = static_cast<int>(1 + random() % 5),
               after = static_cast<int>(1 + random() % 5);
    SCOPED_TRACE(::testing::Message()
                 << "seed " << options.seed << ", " << before << " to " << after << " ranks");
    Ranks old(options, before);
    std::set<std::int64_t> unseen;
    std::int64_t number = 0;
    for (auto i = random() % 200; i > 0; --i) {
      const auto rank = random() % static_cast<std::uint64_t>(before);
      if (old.push(rank, number)) unseen.insert(number++);
      if (random() % 2 != 0) continue;
      const auto slot = old[rank].draw(1)[0];
      unseen.erase(old.number({static_cast<std::int64_t>(rank), slot}));
    }
    if (static_cast<std::int64_t>(unseen.size()) > room * after) {
      EXPECT_TRUE(
          says(message_of<InputError>([&] { (void)deal_reservoirs(old.saved(), options, after); }),
               {"were never drawn, but"}));
      ++refused;
      continue;
    }
    auto dealt = old.dealt(options, after);
    const auto kept = dealt.all_numbers();
    EXPECT_TRUE(std::includes(kept.begin(), kept.end(), unseen.begin(), unseen.end()));
    EXPECT_EQ(kept.size(),
              std::min(old.all_numbers().size(), static_cast<std::size_t>(room * after)));
    // They are known as never drawn: the next draws take them.
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(after); ++rank) {
      const auto& state = dealt[rank].state();
      if (state.size == 0) continue;
      for (const auto slot : dealt[rank].draw(state.size - state.seen))
        EXPECT_EQ(unseen.erase(dealt.number({static_cast<std::int64_t>(rank), slot})), 1U);
    }
    EXPECT_TRUE(unseen.empty());
  }
  EXPECT_GT(refused, 0);
}

TEST(DealReservoirs, UniformKeepsOfEachRankInProportionToItsArrivals) {
  // 1000 arrivals, of which 60 stay: 6 in a hundred.
  const std::array<std::int64_t, 3> arrivals{100, 300, 600};
  const auto options = room_for(50, ReservoirPolicy::uniform, 7);
  std::vector<SavedReservoir> saved(3);
  for (std::size_t rank = 0; rank < 3; ++rank)
    saved[rank].state = {.arrivals = arrivals[rank], .size = 50};
  auto small = options;
  small.capacity_bytes = 30 * 8;
  std::array<int, 3> kept{};
  for (small.rank = 0; small.rank < 2; ++small.rank) {
    const auto dealt = deal_reservoirs(saved, small, 2);
    EXPECT_EQ(dealt.state.arrivals, 500);
    for (const auto& sample : dealt.samples) ++kept[static_cast<std::size_t>(sample.rank)];
  }
  for (std::size_t rank = 0; rank < 3; ++rank)
    EXPECT_NEAR(kept[rank], .06 * static_cast<double>(arrivals[rank]), 1);
  EXPECT_EQ(std::accumulate(kept.begin(), kept.end(), 0), 60);
}

// Three ranks take arrivals, two go on with other room, and every arrival, early or late, of
// whatever rank, is in one of them equally often.
TEST(DealReservoirs, UniformStaysUniform) {
  constexpr int before = 90, after = 60, room_before = 10, room_after = 8, seeds = 4000;
  std::vector<double> counts(before + after);
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    Ranks old(room_for(room_before, ReservoirPolicy::uniform, seed), 3);
    for (int number = 0; number < before; ++number)
      old.push(static_cast<std::size_t>(number % 3), number);
    auto dealt = old.dealt(room_for(room_after, ReservoirPolicy::uniform, seed), 2);
    for (int number = before; number < before + after; ++number)
      dealt.push(static_cast<std::size_t>(number % 2), number);
    for (const auto number : dealt.all_numbers()) ++counts[static_cast<std::size_t>(number)];
  }
  EXPECT_LT(chi_square(counts, 2. * room_after * seeds / (before + after)), 210);  // 133 on average
}

// More ranks have more room than there are samples: new arrivals are kept as if it were full.
TEST(DealReservoirs, UniformTakesArrivalsAsIfItWereFull) {
  constexpr int seeds = 2000, before = 200, room = 10, after = 50;
  double kept = 0, old_ones = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const auto options = room_for(room, ReservoirPolicy::uniform, seed);
    Ranks old(options, 1);
    for (int number = 0; number < before; ++number) old.push(0, number);
    auto dealt = old.dealt(options, 2);  // 5 samples each, of 100 arrivals
    for (int number = 0; number < after; ++number) dealt.push(0, before + number);
    for (const auto number : dealt.numbers(0)) ++(number >= before ? kept : old_ones);
    EXPECT_LE(dealt[0].size(), room);
  }
  EXPECT_LT(old_ones / seeds, 5);
  // As of a full one: each of the 50 stays with a chance of 10 in 150, or a little more where it
  // does not replace another.
  EXPECT_GT(kept / seeds, 50. * 10 / 150);
  EXPECT_LT(kept / seeds, 50. * 10 / 125);
}

TEST(DealReservoirs, DecidesAnewAfterADeal) {
  const auto options = room_for(50, ReservoirPolicy::uniform, 3);
  Ranks old(options, 1);
  for (int number = 0; number < 50; ++number) old.push(0, number);
  auto dealt = old.dealt(options, 1), same = old.dealt(options, 1);
  EXPECT_EQ(dealt.numbers(0), same.numbers(0));
  const auto drawn = dealt[0].draw(10);
  EXPECT_EQ(drawn, same[0].draw(10));
  EXPECT_NE(drawn, old[0].draw(10));
}

TEST(DealReservoirs, RejectsItsArguments) {
  auto options = room_for(5, ReservoirPolicy::uniform);
  const auto message = [&](const ReservoirState& state, const Numbers& order = {}) {
    return message_of<InputError>([&] {
      (void)deal_reservoirs(std::vector<SavedReservoir>{{}, {state, order}}, options, 2);
    });
  };
  const auto wrong = HasSubstr("rank 1 has saved a state that can't be");
  EXPECT_THAT(message({.arrivals = 1, .size = 2}), wrong);
  EXPECT_THAT(message({.arrivals = -1, .size = -1}), wrong);
  EXPECT_THAT(message({.arrivals = 2, .size = 2, .seen = 1}), wrong);
  EXPECT_THAT(message({.arrivals = 2, .size = 2, .first = 2}), wrong);
  options = room_for(5, ReservoirPolicy::keep_unseen);
  EXPECT_THAT(message({.arrivals = 2, .size = 2, .seen = 3}), wrong);
  EXPECT_THAT(message({.arrivals = 2, .size = 2}, {0}), wrong);
  EXPECT_THAT(message({.arrivals = 2, .size = 2}, {0, 2}), wrong);
  options.rank = 2;
  EXPECT_TRUE(says(message({}), {"dealt to rank 2 of 2, expected 0 to 1"}));
  options.rank = 0;
  EXPECT_EQ(deal_reservoirs({}, options, 2).state, (ReservoirState{.deals = 1}));
}

}  // namespace
}  // namespace kolo::testing
