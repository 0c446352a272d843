#include "kolo/sampling/deal_reservoirs.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/random.h"

namespace kolo {

namespace {

constexpr std::uint32_t deal_stream = 0x6465616C;  // "deal", apart from other uses of one seed
constexpr std::uint32_t order_stream = 0, rounding_stream = 1;

void check_saved(std::span<const SavedReservoir> saved, const ReservoirOptions& options,
                 int ranks) {
  if (options.rank >= ranks) {
    throw InputError(fmt::format("reservoir: samples are dealt to rank {} of {}, expected 0 to {}",
                                 options.rank, ranks, ranks - 1));
  }
  for (std::size_t rank = 0; rank < saved.size(); ++rank) {
    const auto& [state, order] = saved[rank];
    const auto in_saved = [size = state.size](std::int64_t slot) {
      return slot >= 0 && slot < size;
    };
    if (state.can_be(options.policy) &&
        (order.empty() || std::cmp_equal(order.size(), state.size)) &&
        std::ranges::all_of(order, in_saved))
      continue;
    throw InputError(
        fmt::format("reservoir: rank {} has saved a state that can't be: {}, {} in order (policy "
                    "{})",
                    rank, state.text(), order.size(), name_of(options.policy)));
  }
}

// The counters of all ranks together.
ReservoirState sum_of(std::span<const SavedReservoir> saved) {
  ReservoirState sum;
  for (const auto& [state, order] : saved) {
    sum.arrivals = checked_add(sum.arrivals, state.arrivals);
    sum.draws = checked_add(sum.draws, state.draws);
    sum.size = checked_add(sum.size, state.size);
    sum.seen += state.seen;
    sum.deals = std::max(sum.deals, state.deals);
  }
  return sum;
}

// The number-th sample of a rank, counted from the one most worth keeping.
struct Candidate {
  std::int64_t rank = 0, number = 0;
  bool seen = false;
  double after = 0;  // sort key among all ranks: smaller stays first

  [[nodiscard]] bool operator>(const Candidate& other) const {
    return std::tie(seen, after, rank) > std::tie(other.seen, other.after, other.rank);
  }
};

// `key`: of the random numbers that round.
Candidate candidate(const SavedReservoir& saved, ReservoirPolicy policy, std::uint64_t key,
                    std::int64_t rank, std::int64_t number) {
  const auto& state = saved.state;
  const auto position = static_cast<double>(number);
  if (policy == ReservoirPolicy::fifo) return {rank, number, false, position};
  // As many of each rank come first as are in proportion to its arrivals; chance rounds, so that no
  // rank has more than its share in the long run.
  if (policy == ReservoirPolicy::uniform) {
    CounterRandom random(key, rounding_stream, static_cast<std::uint64_t>(rank));
    return {rank, number, false,
            (position + random.uniform()) / static_cast<double>(state.arrivals)};
  }
  const auto unseen = state.size - state.seen;
  const bool seen = number >= unseen;
  return {rank, number, seen, seen ? position - static_cast<double>(unseen) : position};
}

// Candidates of one new rank, best first: every `ranks`-th of the first `count` of all.
std::vector<Candidate> candidates_for(std::span<const SavedReservoir> saved,
                                      const ReservoirOptions& options, std::uint64_t key, int ranks,
                                      std::int64_t count) {
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> next;
  for (std::size_t rank = 0; rank < saved.size(); ++rank) {
    if (saved[rank].state.size > 0)
      next.push(candidate(saved[rank], options.policy, key, narrow<std::int64_t>(rank), 0));
  }
  std::vector<Candidate> mine;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto best = next.top();
    next.pop();
    if (i % ranks == options.rank) mine.push_back(best);
    const auto& of_rank = saved[narrow<std::size_t>(best.rank)];
    if (best.number + 1 < of_rank.state.size)
      next.push(candidate(of_rank, options.policy, key, best.rank, best.number + 1));
  }
  return mine;
}

// The slots of a rank in the order of its candidates.
std::vector<std::int64_t> slots_of(const SavedReservoir& saved, ReservoirPolicy policy,
                                   CounterRandom random) {
  const auto size = saved.state.size;
  std::vector<std::int64_t> slots(narrow<std::size_t>(size));
  std::iota(slots.begin(), slots.end(), 0);
  if (policy == ReservoirPolicy::uniform) {
    for (std::int64_t i = 0; i + 1 < size; ++i)
      std::swap(slots[narrow<std::size_t>(i)],
                slots[narrow<std::size_t>(i + uniform_below(random, size - i))]);
    return slots;
  }
  std::rotate(slots.begin(), slots.begin() + saved.state.first, slots.end());
  for (auto& slot : slots)
    if (!saved.order.empty()) slot = saved.order[narrow<std::size_t>(slot)];
  std::reverse(slots.begin(), slots.end());  // unseen or newest first
  return slots;
}

std::int64_t part_of_rank(std::int64_t whole, int rank, int ranks) {
  return whole / ranks + (rank < whole % ranks ? 1 : 0);
}

}  // namespace

DealtReservoir deal_reservoirs(std::span<const SavedReservoir> saved,
                               const ReservoirOptions& options, int ranks) {
  const auto capacity = reservoir_capacity(options);
  check_saved(saved, options, ranks);
  const auto sum = sum_of(saved);
  const auto room = checked_multiply<std::int64_t>(capacity, ranks);
  if (options.policy == ReservoirPolicy::keep_unseen && sum.size - sum.seen > room) {
    throw InputError(fmt::format(
        "reservoir: {} saved samples were never drawn, but {} ranks have room for {} ({} each); "
        "raise the capacity or the number of ranks",
        sum.size - sum.seen, ranks, room, capacity));
  }
  const auto deals = checked_add<std::int64_t>(sum.deals, 1);
  const auto key = derive_seed(options.seed, deal_stream, static_cast<std::uint64_t>(deals));
  const auto mine = candidates_for(saved, options, key, ranks, std::min(sum.size, room));

  DealtReservoir dealt;
  dealt.state = {.arrivals = part_of_rank(sum.arrivals, options.rank, ranks),
                 .draws = part_of_rank(sum.draws, options.rank, ranks),
                 .size = narrow<std::int64_t>(mine.size()),
                 .deals = deals};
  dealt.samples.resize(mine.size());
  std::vector<std::vector<std::size_t>> from(saved.size());  // indices in `mine`, by saved rank
  for (std::size_t i = 0; i < mine.size(); ++i) {
    from[narrow<std::size_t>(mine[i].rank)].push_back(i);
    if (options.policy == ReservoirPolicy::keep_unseen && mine[i].seen) ++dealt.state.seen;
  }
  for (std::size_t rank = 0; rank < saved.size(); ++rank) {
    if (from[rank].empty()) continue;
    const auto slots = slots_of(saved[rank], options.policy, {key, order_stream, rank});
    for (const auto i : from[rank]) {
      // The oldest and the seen ones come first in a reservoir's order.
      dealt.samples[mine.size() - 1 - i] = {mine[i].rank,
                                            slots[narrow<std::size_t>(mine[i].number)]};
    }
  }
  return dealt;
}

}  // namespace kolo
