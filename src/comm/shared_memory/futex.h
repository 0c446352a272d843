#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace kolo {

// Sleeping on a word of memory that several processes map; std::atomic::wait works only inside one
// process. Linux futexes, without FUTEX_PRIVATE_FLAG.

// Sleeps while `word` holds `value`, at most `limit`; may wake without reason.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value,
                std::chrono::nanoseconds limit);

void futex_wake_all(std::atomic<std::uint32_t>& word);

// Between two looks at a word, before going to sleep on it.
void relax();

// Bell that wakes the thread which goes on with a rank's transfers. It lies in memory that the
// ranks of the node map, zero-filled at first; one for all groups of a rank, since a thread sleeps
// on one word.
struct alignas(64) Bell {
  std::atomic<std::uint32_t> rings;
  std::atomic<std::uint32_t> sleepers;

  // Sequentially consistent on both sides: either the sleeper sees the new count, or this rank sees
  // the sleeper.
  void ring() {
    rings.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) > 0) futex_wake_all(rings);
  }

  // Sleeps until it rings after it had rung `heard` times, at most `limit`.
  void sleep(std::uint32_t heard, std::chrono::nanoseconds limit) {
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    if (rings.load(std::memory_order_seq_cst) == heard) futex_wait(rings, heard, limit);
    sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }
};

}  // namespace kolo
