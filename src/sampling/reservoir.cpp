#include "kolo/sampling/reservoir.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"

namespace kolo {

namespace {

constexpr std::uint32_t reservoir_stream = 0x72657376;  // "resv", apart from other uses of one seed
constexpr std::uint32_t arrival_stream = 0, draw_stream = 1;
constexpr std::int64_t order_bytes = sizeof(std::int64_t);

std::int64_t bookkeeping_bytes(ReservoirPolicy policy) {
  return policy == ReservoirPolicy::keep_unseen ? order_bytes : 0;
}

// Draws `count` <= `bound` distinct numbers below `bound`: the first ones of a shuffle of 0, 1, 2,
// ..., of which only the changed places are kept.
void choose_distinct(CounterRandom& random, std::int64_t bound, std::int64_t count,
                     std::vector<std::int64_t>& chosen) {
  std::unordered_map<std::int64_t, std::int64_t> moved;
  moved.reserve(narrow<std::size_t>(count));
  const auto at = [&](std::int64_t index) {
    const auto found = moved.find(index);
    return found == moved.end() ? index : found->second;
  };
  for (std::int64_t i = 0; i < count; ++i) {
    const auto index = i + uniform_below(random, bound - i);
    chosen.push_back(at(index));
    moved[index] = at(i);
  }
}

}  // namespace

std::int64_t uniform_below(CounterRandom& random, std::int64_t bound) {
  const auto range = static_cast<std::uint64_t>(bound);
  // Numbers under this remainder would make the low results more likely than the others.
  const std::uint64_t remainder = -range % range;
  std::uint64_t number = random.next64();
  while (number < remainder) number = random.next64();
  return static_cast<std::int64_t>(number % range);
}

bool ReservoirState::can_be(ReservoirPolicy policy) const {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  return size >= 0 && arrivals >= size && arrivals < most && draws >= 0 && deals >= 0 &&
         seen >= 0 && seen <= (policy == ReservoirPolicy::keep_unseen ? size : 0) && first >= 0 &&
         first <= std::max<std::int64_t>(0, size - 1);
}

std::string ReservoirState::text() const {
  return fmt::format("{} arrivals, {} draws, {} samples, {} of them seen, first {}, {} deals",
                     arrivals, draws, size, seen, first, deals);
}

std::int64_t reservoir_capacity(const ReservoirOptions& options) {
  const auto refuse = [&](const std::string& what) {
    throw InputError(fmt::format("reservoir (rank {}): {}", options.rank, what));
  };
  if (options.rank < 0) refuse("the rank is negative, expected 0 or more");
  if (options.sample_bytes < 1)
    refuse(fmt::format("samples of {} bytes, expected 1 or more", options.sample_bytes));
  const auto each = checked_add(options.sample_bytes, bookkeeping_bytes(options.policy));
  if (options.capacity_bytes < each) {
    refuse(fmt::format("a capacity of {} bytes, expected at least {} for one sample",
                       options.capacity_bytes, each));
  }
  const auto memory = installed_memory();
  if (memory && options.capacity_bytes > *memory) {
    refuse(fmt::format(
        "a capacity of {} bytes, but this machine has {} bytes of memory; lower the capacity",
        options.capacity_bytes, *memory));
  }
  const auto capacity = options.capacity_bytes / each;
  if (options.minimum < 1 || options.minimum > capacity) {
    refuse(fmt::format(
        "a minimum of {} samples before the first draw, expected 1 to {}, for which the capacity "
        "has room ({} bytes, {} per sample)",
        options.minimum, capacity, options.capacity_bytes, each));
  }
  if (options.reuse < 0)
    refuse(
        fmt::format("{} draws per arrival, expected 1 or more, or 0 for no limit", options.reuse));
  return capacity;
}

void Reservoir::Unmap::operator()(std::byte* memory) const {
  (void)::munmap(memory, bytes);  // fails for nothing that mmap() has returned
}

Reservoir::Reservoir(const ReservoirOptions& options)
    : options_(options), capacity_(reservoir_capacity(options)) {
  set_key();
  const auto sample_bytes = capacity_ * options.sample_bytes;  // at most the capacity in bytes
  const auto order_begin = checked_add(sample_bytes, order_bytes - 1) / order_bytes * order_bytes;
  const auto ordered = options.policy == ReservoirPolicy::keep_unseen ? capacity_ : 0;
  const auto bytes = narrow<std::size_t>(checked_add(order_begin, ordered * order_bytes));
  // Pages that nobody has written take no memory, and aren't promised any either.
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(system_error_text(
        fmt::format("reservoir (rank {}): no address space for a capacity of {} bytes; lower it, "
                    "or raise the limit (ulimit -v)",
                    options.rank, options.capacity_bytes),
        errno));
  }
  memory_ = {static_cast<std::byte*>(memory), Unmap{bytes}};
  samples_ = {memory_.get(), narrow<std::size_t>(sample_bytes)};
  order_ = {reinterpret_cast<std::int64_t*>(memory_.get() + order_begin),
            narrow<std::size_t>(ordered)};
}

void Reservoir::set_key() {
  const auto of_rank =
      derive_seed(options_.seed, reservoir_stream, static_cast<std::uint64_t>(options_.rank));
  key_ = derive_seed(of_rank, 0, static_cast<std::uint64_t>(state_.deals));
}

std::int64_t Reservoir::ring_index(std::int64_t position) const {
  const auto index = state_.first + position;
  return index < state_.size ? index : index - state_.size;
}

std::span<const std::int64_t> Reservoir::order() const {
  return order_.first(order_.empty() ? 0 : narrow<std::size_t>(state_.size));
}

std::span<std::byte> Reservoir::memory_of(std::int64_t slot) const {
  return samples_.subspan(narrow<std::size_t>(slot * options_.sample_bytes),
                          narrow<std::size_t>(options_.sample_bytes));
}

Reservoir::Arrival Reservoir::enter() {
  ++state_.arrivals;
  return {Outcome::entered, memory_of(state_.size++)};
}

// A reservoir that was never dealt is full from arrival `capacity` on, and this is algorithm R. One
// that got fewer samples than it has room for keeps as many of its arrivals as a full one would.
Reservoir::Arrival Reservoir::arrive_uniform() {
  CounterRandom random(key_, arrival_stream, static_cast<std::uint64_t>(state_.arrivals));
  const auto slot = uniform_below(random, state_.arrivals + 1);
  if (slot < capacity_ && state_.size < capacity_) return enter();
  ++state_.arrivals;
  if (slot >= capacity_) return {Outcome::passed_over, {}};
  return {Outcome::replaced, memory_of(slot)};
}

Reservoir::Arrival Reservoir::arrive_fifo() {
  if (state_.size < capacity_) return enter();
  ++state_.arrivals;
  const auto slot = state_.first;
  state_.first = ring_index(1);
  return {Outcome::replaced, memory_of(slot)};
}

// The order is a ring: drawn slots by their first draw, then those never drawn.
Reservoir::Arrival Reservoir::arrive_keep_unseen() {
  if (state_.size < capacity_) {
    order_[narrow<std::size_t>(state_.size)] = state_.size;
    return enter();
  }
  if (state_.seen == 0) return {Outcome::refused, {}};
  ++state_.arrivals;
  const auto slot = order_[narrow<std::size_t>(state_.first)];
  state_.first = ring_index(1);  // so that what was the ring's begin is its end: not seen
  --state_.seen;
  return {Outcome::replaced, memory_of(slot)};
}

Reservoir::Arrival Reservoir::arrive() {
  switch (options_.policy) {
    case ReservoirPolicy::uniform:
      return arrive_uniform();
    case ReservoirPolicy::fifo:
      return arrive_fifo();
    case ReservoirPolicy::keep_unseen:
      break;
  }
  return arrive_keep_unseen();
}

std::int64_t Reservoir::draws_left() const {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  if (state_.size < options_.minimum) return 0;
  std::int64_t allowed = most;
  if (options_.reuse == 0 || __builtin_mul_overflow(options_.reuse, state_.arrivals, &allowed))
    allowed = most;
  return std::max<std::int64_t>(0, allowed - state_.draws);
}

// Each drawn slot becomes the last seen one.
void Reservoir::draw_unseen(CounterRandom& random, std::int64_t count,
                            std::vector<std::int64_t>& slots) {
  for (std::int64_t i = 0; i < count; ++i) {
    auto& drawn = order_[narrow<std::size_t>(
        ring_index(state_.seen + uniform_below(random, state_.size - state_.seen)))];
    std::swap(drawn, order_[narrow<std::size_t>(ring_index(state_.seen))]);
    slots.push_back(order_[narrow<std::size_t>(ring_index(state_.seen))]);
    ++state_.seen;
  }
}

// Distinct slots: count <= size().
void Reservoir::draw_round(CounterRandom& random, std::int64_t count,
                           std::vector<std::int64_t>& slots) {
  if (options_.policy != ReservoirPolicy::keep_unseen) {
    choose_distinct(random, state_.size, count, slots);
    return;
  }
  const auto seen = state_.seen;
  const auto unseen = std::min(count, state_.size - seen);
  draw_unseen(random, unseen, slots);
  const auto begin = slots.size();
  choose_distinct(random, seen, count - unseen, slots);
  for (auto i = begin; i < slots.size(); ++i)
    slots[i] = order_[narrow<std::size_t>(ring_index(slots[i]))];
}

std::vector<std::int64_t> Reservoir::draw(std::int64_t count) {
  if (count < 0 || count > draws_left()) {
    throw Error(fmt::format(
        "reservoir (rank {}): {} samples were asked for, expected 0 to {}: it has {} samples "
        "(minimum {}), {} arrivals and {} draws (reuse {}); ask draws_left() first",
        options_.rank, count, draws_left(), state_.size, options_.minimum, state_.arrivals,
        state_.draws, options_.reuse));
  }
  std::vector<std::int64_t> slots;
  slots.reserve(narrow<std::size_t>(count));
  CounterRandom random(key_, draw_stream, static_cast<std::uint64_t>(state_.draws));
  for (auto left = count; left > 0; left = count - narrow<std::int64_t>(slots.size()))
    draw_round(random, std::min(left, state_.size), slots);
  state_.draws += count;
  return slots;
}

std::span<const std::byte> Reservoir::sample(std::int64_t slot) const {
  if (slot < 0 || slot >= state_.size) {
    throw Error(fmt::format("reservoir (rank {}): sample {} was asked for, expected 0 to {}",
                            options_.rank, slot, state_.size - 1));
  }
  return memory_of(slot);
}

std::span<const std::byte> Reservoir::contents() const {
  return samples_.first(narrow<std::size_t>(state_.size * options_.sample_bytes));
}

void Reservoir::check_state(const ReservoirState& state,
                            std::span<const std::int64_t> order) const {
  const auto refuse = [&](const std::string& what) {
    throw InputError(fmt::format("reservoir (rank {}): {}", options_.rank, what));
  };
  if (state.size > capacity_) {
    refuse(
        fmt::format("{} samples were saved, but the capacity has room for {}; raise it, or deal "
                    "the saved samples to it",
                    state.size, capacity_));
  }
  if (!state.can_be(options_.policy)) {
    refuse(fmt::format("a saved state that can't be: {} (policy {}, room for {})", state.text(),
                       name_of(options_.policy), capacity_));
  }
  const bool goes_round = options_.policy != ReservoirPolicy::uniform && state.size == capacity_;
  if (state.first > 0 && !goes_round) {
    refuse(fmt::format(
        "the order of {} saved samples begins at {}, as only in a full reservoir of policy fifo or "
        "keep_unseen, but this one has room for {} (policy {}); deal the saved samples to it",
        state.size, state.first, capacity_, name_of(options_.policy)));
  }
  if (order.empty()) return;
  std::vector<bool> found(order_.empty() ? 0 : narrow<std::size_t>(state.size));
  if (order.size() != found.size()) {
    refuse(fmt::format("a saved order of {} samples, expected {}", order.size(), found.size()));
  }
  for (const auto slot : order) {
    if (slot < 0 || slot >= state.size || found[narrow<std::size_t>(slot)])
      refuse(fmt::format("a saved order that has slot {} twice, or among {}", slot, state.size));
    found[narrow<std::size_t>(slot)] = true;
  }
}

std::span<std::byte> Reservoir::restore(const ReservoirState& state,
                                        std::span<const std::int64_t> order) {
  check_state(state, order);
  state_ = state;
  set_key();
  const auto own = order_.first(order_.empty() ? 0 : narrow<std::size_t>(state.size));
  if (order.empty()) {
    std::iota(own.begin(), own.end(), 0);
  } else {
    std::copy(order.begin(), order.end(), own.begin());
  }
  return samples_.first(narrow<std::size_t>(state.size * options_.sample_bytes));
}

}  // namespace kolo
