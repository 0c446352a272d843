#include "comm/watch/event_block.h"

#include <chrono>
#include <cstring>
#include <thread>

#include <fmt/format.h>

namespace kolo {

std::string CollectiveRecord::describe() const {
  const std::string part_text = part == 0 ? std::string() : fmt::format(".{}", part);
  const std::string text = fmt::format("call {}{}, {}", number, part_text, CallHeader::describe());
  return name[0] == 0 ? text : fmt::format("{}, \"{}\"", text, name.data());
}

void RecordCell::write(const CollectiveRecord& record) {
  std::array<std::uint64_t, words> values;
  std::memcpy(values.data(), &record, sizeof(record));
  const auto version = version_.load(std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < words; ++i) words_[i].store(values[i], std::memory_order_release);
  version_.store(version + 2, std::memory_order_release);
}

// A writer that was stopped in the middle of a record stays there, so after some looks it is taken
// as it is.
CollectiveRecord RecordCell::read() const {
  std::array<std::uint64_t, words> values;
  for (int look = 0; look < 100; ++look) {
    const auto before = version_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < words; ++i) values[i] = words_[i].load(std::memory_order_acquire);
    if (before % 2 == 0 && version_.load(std::memory_order_relaxed) == before) break;
    std::this_thread::yield();
  }
  CollectiveRecord record;
  std::memcpy(static_cast<void*>(&record), values.data(), sizeof(record));
  record.name.back() = 0;
  return record;
}

std::int64_t monotonic_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace kolo
