#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kolo/comm/collective_call.h"

namespace kolo {

// Whether the rank has made this call, and not joined.
[[nodiscard]] inline bool is_active(const CallHeader& header) {
  return header.collective != Collective::join;
}

// The first of the headers by rank whose rank is active, or nothing but joined ranks: -1.
[[nodiscard]] int first_active_rank(std::span<const CallHeader> headers);

// Balance of what one rank sends and expects in an all-to-all: over all ranks they add up to 0
// (modulo 2^64) when everyone expects what is sent to it.
[[nodiscard]] std::uint64_t all_to_all_fingerprint(int rank,
                                                   std::span<const std::int64_t> send_counts,
                                                   std::span<const std::int64_t> receive_counts);

// The call's header, and in it what ranks can't see in the call itself: whether their counts by
// rank fit each other.
[[nodiscard]] CallHeader with_counts(const CollectiveCall& call, int rank);

// Every rank's counts, one rank after another. Collective.
using GatherCounts = std::function<std::vector<std::int64_t>()>;

// The active ranks' calls differ: who calls what, what most of them call first. Where they differ
// in nothing but the counts by rank that they pass: who passes which, for which these are gathered.
[[nodiscard]] std::string describe_mismatch(std::span<const CallHeader> headers,
                                            const GatherCounts& gather_counts);

// Names an active rank that sends another one something else than that expects, in an all-to-all;
// empty: there is none. `all_counts`: by rank, what it sends to each, then expects from each.
[[nodiscard]] std::string describe_exchange_mismatch(std::span<const CallHeader> headers,
                                                     std::span<const std::int64_t> all_counts);

// Compares a call with those that the other ranks make at the same time; an Error in the same words
// on all of them where they differ, before anything is moved. Costs an all-reduce of 16 bytes; for
// an all-to-all an all-gather of 8 besides. `execute` does collectives of these ranks.
void compare_calls(const CollectiveCall& call, int rank, int size,
                   const std::function<void(const CollectiveCall&)>& execute);

}  // namespace kolo
