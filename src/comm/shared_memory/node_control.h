#pragma once

#include <atomic>
#include <cstdint>

#include "comm/shared_memory/peer_memory.h"
#include "kolo/comm/collective_call.h"

// The words through which the ranks of a node meet. They lie in memory that all of them map,
// zero-filled at first; every rank writes only its own cell.
namespace kolo {

// What a rank is about to do, published before the others touch its memory, and compared by all of
// them.
struct Announcement {
  CallHeader call;
  SharedLocation location;
  std::uint64_t reachable = 0;  // location is valid
};

struct alignas(64) RankCell {
  std::atomic<std::uint32_t> arrived;   // how many meetings this rank has come to
  std::atomic<std::uint32_t> sleepers;  // ranks asleep until `arrived` changes
  std::atomic<std::uint32_t> has_left;  // this rank comes to no meeting any more
  std::uint32_t verdict;  // of the node's first rank: what it has learnt of the other nodes
  // Who this is, for the others: written before the first meeting.
  std::int32_t job_rank = 0;
  std::int32_t process = 0;  // 0: nothing is known of it
  std::uint64_t process_namespace = 0;
  // Two, used in turn: a rank may announce its next collective while a slower one still reads the
  // last.
  Announcement announcements[2];
};

struct alignas(64) AbortCell {
  std::atomic<std::uint32_t> aborted;
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free,
              "the cells are shared between processes");

}  // namespace kolo
