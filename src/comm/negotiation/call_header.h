#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kolo/comm/collective_call.h"

namespace kolo {

// Which of a communicator's ways to allocate: allocate(), allocate_shared(), allocate_for_node().
enum class MemoryKind : std::uint32_t { own, shared, for_node };

// What the ranks tell each other before a collective when they negotiate: 32 bytes each.
struct CallHeader {
  Collective collective = Collective::none;  // join: the rank has no data any more
  std::uint32_t type = 0;                    // DataType
  std::uint32_t detail = 0;                  // ReduceOp; root of a broadcast
  MemoryKind memory = MemoryKind::own;       // of an allocation
  std::int64_t count = 0;                    // elements; of an uneven all-gather, of all ranks
  std::uint64_t fingerprint = 0;             // of counts by rank; of a join, all calls so far

  [[nodiscard]] bool is_active() const { return collective != Collective::join; }
  [[nodiscard]] std::string describe() const;
};
static_assert(sizeof(CallHeader) == 32, "nothing but values: headers are sent as bytes");

// For all-to-all the counts may differ from rank to rank; what they must satisfy is compared apart.
[[nodiscard]] bool is_same_call(const CallHeader& a, const CallHeader& b);

// The first of the headers by rank whose rank is active, or nothing but joined ranks: -1.
[[nodiscard]] int first_active_rank(std::span<const CallHeader> headers);

// Of counts by rank that are the same on all ranks.
[[nodiscard]] std::uint64_t fingerprint_of(std::span<const std::int64_t> counts);

// Of what one rank sends and expects in an all-to-all. Over all ranks these add up to 0 (modulo
// 2^64) when everyone expects what is sent to it.
[[nodiscard]] std::uint64_t all_to_all_fingerprint(int rank,
                                                   std::span<const std::int64_t> send_counts,
                                                   std::span<const std::int64_t> receive_counts);

// The active ranks' calls differ: who calls what, what most of them call first.
[[nodiscard]] std::string describe_mismatch(std::span<const CallHeader> headers);

// The ranks' calls differ in nothing but the counts that they pass; `counts` holds every rank's,
// one rank behind another.
[[nodiscard]] std::string describe_count_mismatch(std::span<const CallHeader> headers,
                                                  std::span<const std::int64_t> counts);

}  // namespace kolo
