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

}  // namespace kolo
