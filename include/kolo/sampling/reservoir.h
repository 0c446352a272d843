#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kolo/base/enum_names.h"
#include "kolo/base/random.h"

namespace kolo {

// Uniform in [0, bound), unbiased; bound > 0. CounterRandom::below() for bounds of more than 32
// bits: arrivals are counted beyond that.
[[nodiscard]] std::int64_t uniform_below(CounterRandom& random, std::int64_t bound);

// Treatment of the next sample by a full reservoir.
enum class ReservoirPolicy {
  // All that came have the same chance to be in it: arrival t enters with probability capacity / t
  // and replaces any one. Source: Vitter, "Random sampling with a reservoir", algorithm R, ACM TOMS
  // 11(1), 1985.
  uniform,
  // The oldest is replaced.
  fifo,
  // Only a sample that has been drawn may be replaced: the one whose first draw lies furthest back.
  // Without any the arrival is refused, so that the caller waits or drops it. Draws take
  // samples that were never drawn before others do. So nothing is lost unseen, who waits is soon
  // let in, and with any `reuse` the reservoir never comes to a state in which it takes neither
  // arrivals nor draws of a batch that fits it.
  keep_unseen,
};

constexpr auto enum_names(ReservoirPolicy) {
  return std::to_array<EnumName<ReservoirPolicy>>({{ReservoirPolicy::uniform, "uniform"},
                                                   {ReservoirPolicy::fifo, "fifo"},
                                                   {ReservoirPolicy::keep_unseen, "keep_unseen"}});
}

struct ReservoirOptions {
  ReservoirPolicy policy = ReservoirPolicy::uniform;
  std::int64_t sample_bytes = 0;    // of every sample
  std::int64_t capacity_bytes = 0;  // of samples and bookkeeping (8 bytes each in keep_unseen)
  std::int64_t minimum = 1;         // samples that must be in it before any is drawn
  std::int64_t reuse = 0;  // draws per arrival at most, over all samples together; 0: no limit
  std::uint64_t seed = 0;  // the same on every rank
  int rank = 0;            // makes the decisions differ between ranks
};

// How many samples the capacity has room for. InputError for options that make no reservoir: sizes
// below 1, a capacity of less than one sample or of more than the machine's memory, a minimum that
// the capacity has no room for, a negative reuse or rank.
[[nodiscard]] std::int64_t reservoir_capacity(const ReservoirOptions& options);

// All of a reservoir but its samples; plain numbers for a checkpoint.
struct ReservoirState {
  std::int64_t arrivals = 0;  // that came and were not refused
  std::int64_t draws = 0;     // samples drawn, each time it was
  std::int64_t size = 0;      // samples in it
  std::int64_t seen = 0;      // of those, drawn at least once; counted by keep_unseen alone
  std::int64_t first = 0;     // where the order begins: the oldest of fifo and keep_unseen
  std::int64_t deals = 0;     // how often samples were dealt to other ranks (deal_reservoirs.h)

  // Whether a reservoir of this policy can have come to it.
  [[nodiscard]] bool can_be(ReservoirPolicy policy) const;
  // "5 arrivals, 2 draws, 3 samples, 0 of them seen, first 0, 1 deals"
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool operator==(const ReservoirState&) const = default;
};

// A bounded store of samples that come one after another and are drawn for training: of one rank.
// A sample is a fixed number of bytes.
//
// Samples lie packed, one after another: many are a few numbers of one cell, which any padding
// would make much larger, and all are copied into batches anyway. The memory begins at a page, so a
// sample whose size is a multiple of 4 (8, 64) is aligned for float (double, vectors).
//
// Address space for the capacity is taken at once, memory page by page as samples come: never more
// than the capacity and two pages. Whether the machine has it all is only known then; several
// reservoirs on one machine have to fit together.
//
// Chance depends on seed, rank and the state's counters alone. So state, order()
// and contents() are all there is: a reservoir restored from them makes the same of the same
// arrivals and draws, to the bit.
//
// Not thread-safe, not even for reading beside arrive() or draw(): the caller locks.
class Reservoir {
 public:
  // InputError as reservoir_capacity(); Error where there is no address space.
  explicit Reservoir(const ReservoirOptions& options);

  enum class Outcome {
    entered,      // there was room
    replaced,     // another one went for it
    passed_over,  // counted, and not kept
    refused,      // not counted: the caller may try again after a draw
  };
  struct Arrival {
    Outcome outcome;
    std::span<std::byte> place;  // sample_bytes where it entered or replaced, otherwise empty
  };
  // Decides on the next sample. The caller writes all of it to `place` before any other call; so
  // nothing needs to be made that isn't kept. Takes constant time.
  [[nodiscard]] Arrival arrive();

  // How many samples may be drawn now: none before the minimum, no more than `reuse` leaves.
  [[nodiscard]] std::int64_t draws_left() const;
  // Draws `count` samples at random: slots, good for sample() until the next arrival. Within one
  // call none is drawn twice, unless there are fewer: then all are drawn equally often, but for one
  // time. All samples have the same chance; in keep_unseen those never drawn come first, and the
  // others have the same chance for what is left. Error for more than draws_left(). Takes constant
  // time per sample, and memory for the slots.
  [[nodiscard]] std::vector<std::int64_t> draw(std::int64_t count);
  // Error unless 0 <= slot < size().
  [[nodiscard]] std::span<const std::byte> sample(std::int64_t slot) const;

  [[nodiscard]] std::int64_t capacity() const { return capacity_; }  // samples
  [[nodiscard]] std::int64_t size() const { return state_.size; }
  [[nodiscard]] const ReservoirOptions& options() const { return options_; }

  // To be saved: counters, all samples in order of their slots, and in keep_unseen size() slots in
  // the order of their first draw, those never drawn last (otherwise empty); it begins at
  // state().first and goes round.
  [[nodiscard]] const ReservoirState& state() const { return state_; }
  [[nodiscard]] std::span<const std::byte> contents() const;
  [[nodiscard]] std::span<const std::int64_t> order() const;

  // Becomes what was saved; returns the place for the contents, which the caller writes before any
  // other call. An empty order is 0, 1, 2, ... InputError, and nothing changes, for a state that
  // can't be or has more samples than the capacity (deal_reservoirs() makes them fit).
  [[nodiscard]] std::span<std::byte> restore(const ReservoirState& state,
                                             std::span<const std::int64_t> order = {});

 private:
  // Index into the ring of a place counted from the oldest sample.
  [[nodiscard]] std::int64_t ring_place(std::int64_t position) const;
  [[nodiscard]] std::span<std::byte> place(std::int64_t slot);
  [[nodiscard]] Arrival enter();
  [[nodiscard]] Arrival arrive_uniform();
  [[nodiscard]] Arrival arrive_fifo();
  [[nodiscard]] Arrival arrive_keep_unseen();
  void draw_round(CounterRandom& random, std::int64_t count, std::vector<std::int64_t>& slots);
  void draw_unseen(CounterRandom& random, std::int64_t count, std::vector<std::int64_t>& slots);
  void set_key();
  void check_state(const ReservoirState& state, std::span<const std::int64_t> order) const;

  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* memory) const;
  };

  ReservoirOptions options_;
  std::int64_t capacity_;
  ReservoirState state_;
  std::uint64_t key_ = 0;  // of everything decided by chance
  std::unique_ptr<std::byte, Unmap> memory_;
  std::span<std::byte> samples_;   // capacity() of them
  std::span<std::int64_t> order_;  // keep_unseen: slots
};

}  // namespace kolo
