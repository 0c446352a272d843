#include "comm/negotiation/negotiated_backend.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/messages.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

constexpr std::size_t most_calls_shown = 4;

// A bijection of 64-bit numbers that leaves no pattern (the last steps of SplitMix64; Steele, Lea
// and Flood, "Fast splittable pseudorandom number generators", 2014).
std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9U;
  value = (value ^ value >> 27) * 0x94D049BB133111EBU;
  return value ^ value >> 31;
}

std::uint64_t mixed(std::uint64_t state, std::int64_t value) {
  return mixed(state + 0x9E3779B97F4A7C15U + static_cast<std::uint64_t>(value));
}

std::uint64_t fingerprint_of(std::span<const std::int64_t> counts) {
  std::uint64_t state = 0;
  for (const std::int64_t count : counts) state = mixed(state, count);
  return state;
}

// Equal where first_difference() finds none.
std::uint64_t fingerprint_of(const CallHeader& header) {
  const bool may_differ = traits_of(header.collective).buffers == BufferShape::exchanged_uneven;
  std::uint64_t state = 0;
  for (const std::int64_t value :
       {static_cast<std::int64_t>(header.collective), static_cast<std::int64_t>(header.type),
        static_cast<std::int64_t>(header.op), std::int64_t{header.peer}, std::int64_t{header.tag},
        static_cast<std::int64_t>(header.memory), may_differ ? 0 : header.count,
        may_differ ? 0 : static_cast<std::int64_t>(header.fingerprint)})
    state = mixed(state, value);
  return state;
}

// Ranks that say the same.
struct Party {
  std::string what;
  std::vector<int> ranks;
};

// The largest party first, of equal ones that with the lowest rank.
std::string describe_parties(std::vector<Party> parties) {
  std::stable_sort(parties.begin(), parties.end(),
                   [](const Party& a, const Party& b) { return a.ranks.size() > b.ranks.size(); });
  std::vector<std::string> shown;
  for (const Party& party : std::span(parties).first(std::min(parties.size(), most_calls_shown))) {
    shown.push_back(fmt::format("{} {} {}", party.ranks.size() == 1 ? "rank" : "ranks",
                                list_of_ranks(party.ranks), party.what));
  }
  if (parties.size() > most_calls_shown)
    shown.push_back(fmt::format("{} other calls elsewhere", parties.size() - most_calls_shown));
  return fmt::format("{}", fmt::join(shown, "; "));
}

// Balance of what one rank sends and expects in an all-to-all: over all ranks they add up to 0
// (modulo 2^64) when everyone expects what is sent to it.
std::uint64_t all_to_all_fingerprint(int rank, const CollectiveCall& call) {
  const auto of_parcel = [](std::int64_t from, std::int64_t to, std::int64_t count) {
    return mixed(mixed(mixed(0, from), to), count);
  };
  std::uint64_t balance = 0;
  for (std::size_t peer = 0; peer < call.send_counts.size(); ++peer) {
    balance += of_parcel(rank, static_cast<std::int64_t>(peer), call.send_counts[peer]);
    balance -= of_parcel(static_cast<std::int64_t>(peer), rank, call.receive_counts[peer]);
  }
  return balance;
}

}  // namespace

int first_active_rank(std::span<const CallHeader> headers) {
  const auto first = std::find_if(headers.begin(), headers.end(), is_active);
  return first == headers.end() ? -1 : static_cast<int>(first - headers.begin());
}

CallHeader with_counts(const CollectiveCall& call, int rank) {
  CallHeader header = call;
  const auto shape = traits_of(call.collective).buffers;
  if (shape == BufferShape::gathered_uneven)
    header.fingerprint = fingerprint_of(call.receive_counts);
  else if (shape == BufferShape::exchanged_uneven)
    header.fingerprint = all_to_all_fingerprint(rank, call);
  return header;
}

std::string describe_mismatch(std::span<const CallHeader> headers,
                              const GatherCounts& gather_counts) {
  const std::size_t size = headers.size();
  const CallHeader& first = headers[static_cast<std::size_t>(first_active_rank(headers))];
  std::string_view difference;  // the first that there is besides counts by rank
  for (const CallHeader& header : headers) {
    if (!is_active(header) || !difference.empty()) continue;
    const auto here = first_difference(first, header);
    if (here != counts_by_rank) difference = here;
  }
  const bool is_of_counts = difference.empty();
  const auto counts = is_of_counts ? gather_counts() : std::vector<std::int64_t>();
  std::vector<Party> parties;
  for (std::size_t rank = 0; rank < size; ++rank) {
    const CallHeader& header = headers[rank];
    if (!is_active(header)) continue;
    const auto party = std::ranges::find_if(parties, [&](const Party& candidate) {
      const auto member = static_cast<std::size_t>(candidate.ranks.front());
      return first_difference(headers[member], header).empty();
    });
    if (party != parties.end()) {
      party->ranks.push_back(static_cast<int>(rank));
      continue;
    }
    const auto passed = is_of_counts ? std::span(counts).subspan(rank * size, size)
                                     : std::span<const std::int64_t>();
    parties.push_back(
        {.what = is_of_counts ? fmt::format("[{}]", fmt::join(passed, ", ")) : header.describe(),
         .ranks = {static_cast<int>(rank)}});
  }
  if (is_of_counts) {
    return fmt::format(
        "comm: {}: ranks passed different counts by rank: {}; every rank must pass the same, for "
        "example from an all-gather of their own counts",
        first.describe(), describe_parties(std::move(parties)));
  }
  return fmt::format("comm: ranks called different collectives: {}; {} (they differ in {})",
                     describe_parties(std::move(parties)), same_order, difference);
}

std::string describe_exchange_mismatch(std::span<const CallHeader> headers,
                                       std::span<const std::int64_t> all_counts) {
  const std::size_t size = headers.size();
  for (std::size_t from = 0; from < size; ++from) {
    for (std::size_t to = 0; to < size; ++to) {
      const auto sent = all_counts[from * 2 * size + to];
      const auto expected = all_counts[to * 2 * size + size + from];
      if (sent == expected || !is_active(headers[from]) || !is_active(headers[to])) continue;
      return fmt::format(
          "comm: all-to-all: rank {} sends {} {} to rank {}, which expects {}; "
          "receive_counts[r] must be what rank r sends, for example from an "
          "all-to-all of the counts",
          from, sent, name_of(headers[from].type), to, expected);
    }
  }
  return {};
}

namespace {

// The greatest of all fingerprints and of their complements: these belong to one number where there
// is but one.
bool are_alike(const CallHeader& mine, const Execute& execute) {
  const auto fingerprint = static_cast<std::int64_t>(fingerprint_of(mine));
  std::array<std::int64_t, 2> greatest = {fingerprint, ~fingerprint};
  execute(CollectiveCall::all_reduce(std::span(greatest), ReduceOp::max));
  return greatest[0] == ~greatest[1];
}

// Tells whether every rank expects what is sent to it.
bool is_balanced(const CallHeader& mine, const Execute& execute) {
  auto balance = static_cast<std::int64_t>(mine.fingerprint);
  execute(CollectiveCall::all_reduce(std::span(&balance, 1), ReduceOp::sum));
  return balance == 0;
}

}  // namespace

void compare_calls(const CollectiveCall& call, int rank, int size, const Execute& execute) {
  const CallHeader mine = with_counts(call, rank);
  const bool is_exchange = traits_of(call.collective).buffers == BufferShape::exchanged_uneven;
  const bool is_same = are_alike(mine, execute);
  if (is_same && (!is_exchange || is_balanced(mine, execute))) return;
  const auto headers = gather(size, std::span(&mine, 1), execute);
  const auto gather_counts = [&] {
    auto counts = call.receive_counts;
    if (is_exchange)
      counts.insert(counts.begin(), call.send_counts.begin(), call.send_counts.end());
    return gather(size, std::span<const std::int64_t>(counts), execute);
  };
  throw Error(is_same ? describe_exchange_mismatch(headers, gather_counts())
                      : describe_mismatch(headers, gather_counts));
}

}  // namespace kolo
