#include "comm/device/shared_windows.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"

namespace kolo {

namespace {

std::atomic<std::uint32_t>& word_in(const std::shared_ptr<std::byte>& memory) {
  return *reinterpret_cast<std::atomic<std::uint32_t>*>(memory.get());
}

// How far a rank has come, as it is sent.
struct Attempt {
  DeviceMemoryName name;
  std::array<char, 240> problem{};  // cut short, zero-terminated; empty: none
};

// Tries what may fail on this rank alone.
void attempt(Attempt& mine, const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    text.copy(mine.problem.data(), mine.problem.size() - 1);
  }
}

std::vector<Attempt> exchange(Backend& host, const Attempt& mine) {
  const auto bytes = narrow<std::int64_t>(sizeof(Attempt));
  const auto size = host.topology().size;
  std::vector<Attempt> all(static_cast<std::size_t>(size));
  host.execute(CollectiveCall::all_gather(
      ConstBuffer(&mine, bytes, DataType::uint8),
      Buffer(all.data(), checked_multiply<std::int64_t>(bytes, size), DataType::uint8)));
  return all;
}

// Of the first rank that has one, whose it is; empty: all went well.
std::string first_problem(const std::vector<Attempt>& attempts) {
  for (std::size_t rank = 0; rank < attempts.size(); ++rank) {
    if (attempts[rank].problem[0] != 0)
      return fmt::format("on rank {}: {}", rank, attempts[rank].problem.data());
  }
  return {};
}

// A number that every rank writes into its window and the others read there: that memory could be
// opened does not say that it is the right one, or that the device reaches it.
class Probe {
 public:
  Probe(const DeviceRuntime& runtime, int device)
      : runtime_(runtime),
        device_(device),
        stream_(runtime.make_stream(device)),
        place_(runtime.allocate_pinned(sizeof(std::uint64_t))) {}

  void write(std::byte* window, int rank) {
    value() = number_of(rank);
    runtime_.copy(device_, window, place_.get(), sizeof(std::uint64_t), stream_.get());
    runtime_.record(device_, stream_.get())->wait();
  }

  void read(const std::byte* window, int rank) {
    value() = 0;
    runtime_.copy(device_, place_.get(), window, sizeof(std::uint64_t), stream_.get());
    runtime_.record(device_, stream_.get())->wait();
    if (value() != number_of(rank))
      throw Error(fmt::format("what rank {} has written into its memory is not there", rank));
  }

 private:
  static std::uint64_t number_of(int rank) {
    return 0x6B6F6C6F00000001U + static_cast<std::uint64_t>(rank);
  }
  std::uint64_t& value() { return *reinterpret_cast<std::uint64_t*>(place_.get()); }

  const DeviceRuntime& runtime_;
  int device_;
  std::shared_ptr<void> stream_;
  std::shared_ptr<std::byte> place_;
};

}  // namespace

bool LentMemory::is_returned() const {
  return std::all_of(words.begin(), words.end(), [](const auto& word) {
    return word_in(word).load(std::memory_order_acquire) != 0;
  });
}

void LentMemories::add(LentMemory lent) {
  const std::lock_guard lock(mutex_);
  lent_.push_back(std::move(lent));
  std::erase_if(lent_, [](const LentMemory& each) { return each.is_returned(); });
}

// What may fail on one rank is tried between two exchanges, so that all come to the same end.
std::unique_ptr<SharedWindows> SharedWindows::make(Backend& host,
                                                   std::shared_ptr<const DeviceRuntime> runtime,
                                                   int device, std::size_t bytes,
                                                   LentMemories& lent, std::string& problem) {
  const int rank = host.topology().rank;
  constexpr std::int64_t word_bytes = 64;
  LentMemory own;
  own.words = host.allocate(CollectiveCall::of(Collective::allocate_shared, word_bytes));
  Attempt mine;
  std::unique_ptr<Probe> probe;
  attempt(mine, [&] {
    own.memory = runtime->allocate_shared(device, bytes, mine.name);
    probe = std::make_unique<Probe>(*runtime, device);
    probe->write(own.memory.get(), rank);
  });
  const auto made = exchange(host, mine);
  problem = own.words.empty() ? "the ranks share no memory" : first_problem(made);
  if (!problem.empty()) return nullptr;
  std::vector<std::shared_ptr<std::byte>> all(made.size());
  attempt(mine, [&] {
    for (std::size_t peer = 0; peer < all.size(); ++peer) {
      const bool is_own = static_cast<int>(peer) == rank;
      all[peer] = is_own ? own.memory : runtime->open_shared(device, made[peer].name);
      probe->read(all[peer].get(), static_cast<int>(peer));
    }
  });
  problem = first_problem(exchange(host, mine));
  if (problem.empty())
    return std::make_unique<SharedWindows>(std::move(own), all, rank, bytes, lent);
  all.clear();
  host.execute(CollectiveCall::of(Collective::barrier));  // nobody has another's open any more
  return nullptr;
}

SharedWindows::SharedWindows(LentMemory own, std::vector<std::shared_ptr<std::byte>> all, int rank,
                             std::size_t bytes, LentMemories& lent)
    : own_(std::move(own)), all_(std::move(all)), rank_(rank), bytes_(bytes), lent_(lent) {}

SharedWindows::~SharedWindows() {
  all_.clear();
  word_in(own_.words[static_cast<std::size_t>(rank_)]).store(1, std::memory_order_release);
  lent_.add(std::move(own_));
}

}  // namespace kolo
