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
  // All arrivals have the same chance to be in it: arrival t enters with probability capacity / t
  // and replaces any one (algorithm R of Vitter, "Random sampling with a reservoir", ACM TOMS
  // 11(1),
  // 1985).
  uniform,
  // The oldest is replaced.
  fifo,
  // Only a drawn sample may be replaced: the one whose first draw lies furthest back. If there is
  // none the arrival is refused, and the caller waits or drops it. Draws take samples that were
  // never drawn first. So nothing is lost unseen, and with any `reuse` the reservoir always takes
  // arrivals or draws of a batch that fits it.
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

// Number of samples that fit the capacity. InputError for options that make no reservoir: sizes
// below 1, a capacity below one sample or above the machine's memory, a minimum above the capacity,
// a negative reuse or rank.
[[nodiscard]] std::int64_t reservoir_capacity(const ReservoirOptions& options);

// Counters of a reservoir, for a checkpoint.
struct ReservoirState {
  std::int64_t arrivals = 0;  // without those refused
  std::int64_t draws = 0;     // a sample drawn twice counts twice
  std::int64_t size = 0;      // samples in it
  std::int64_t seen = 0;      // of those, drawn at least once; counted by keep_unseen alone
  std::int64_t first = 0;     // beginning of the order: the oldest of fifo and keep_unseen
  std::int64_t deals = 0;     // how often samples were dealt to other ranks (deal_reservoirs.h)

  // Tells whether a reservoir of this policy can have these counters.
  [[nodiscard]] bool can_be(ReservoirPolicy policy) const;
  // "5 arrivals, 2 draws, 3 samples, 0 of them seen, first 0, 1 deals"
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool operator==(const ReservoirState&) const = default;
};

// Bounded store, on one rank, of samples that arrive one after another and are drawn for training.
// A sample is a fixed number of bytes.
//
// Samples lie packed, one after another. The memory begins at a page, so a sample whose size is a
// multiple of 4 (8, 64) is aligned for float (double, vectors). Address space for the capacity is
// taken at once, memory page by page as samples arrive, so several reservoirs on one machine have
// to fit together.
//
// Chance depends on seed, rank and the state's counters alone: a reservoir restored from state,
// order() and contents() treats the same arrivals and draws alike, to the bit.
//
// Not thread-safe, not even for reading beside arrive() or draw(): the caller locks.
class Reservoir {
 public:
  // InputError as reservoir_capacity(); Error if there is no address space.
  explicit Reservoir(const ReservoirOptions& options);

  enum class Outcome {
    entered,      // there was room
    replaced,     // another one went for it
    passed_over,  // counted, and not kept
    refused,      // not counted: the caller may try again after a draw
  };
  struct Arrival {
    Outcome outcome;
    std::span<std::byte> memory;  // sample_bytes where it entered or replaced, otherwise empty
  };
  // Decides on the next sample, in constant time. The caller writes it to `place` before any other
  // call, and needs not make samples that aren't kept.
  [[nodiscard]] Arrival arrive();

  // Number of samples that may be drawn now: none before the minimum, no more than `reuse` leaves.
  [[nodiscard]] std::int64_t draws_left() const;
  // Draws `count` samples at random; returns their slots, for sample() until the next arrival. No
  // sample is drawn twice in one call, unless there are fewer than `count`: then all are drawn
  // equally often, to within one. Samples have equal chances, in keep_unseen after those never
  // drawn. Error for more than draws_left(). Takes constant time per sample.
  [[nodiscard]] std::vector<std::int64_t> draw(std::int64_t count);
  // Error unless 0 <= slot < size().
  [[nodiscard]] std::span<const std::byte> sample(std::int64_t slot) const;

  [[nodiscard]] std::int64_t capacity() const { return capacity_; }  // samples
  [[nodiscard]] std::int64_t size() const { return state_.size; }
  [[nodiscard]] const ReservoirOptions& options() const { return options_; }

  // Parts of a checkpoint: counters; all samples in order of their slots; in keep_unseen a ring of
  // size() slots, beginning at state().first, by first draw, those never drawn last (else empty).
  [[nodiscard]] const ReservoirState& state() const { return state_; }
  [[nodiscard]] std::span<const std::byte> contents() const;
  [[nodiscard]] std::span<const std::int64_t> order() const;

  // Restores what was saved; returns the place for the contents, which the caller writes before any
  // other call. An empty order is 0, 1, 2, ... InputError, without any change, for an impossible
  // state and for more samples than the capacity (deal_reservoirs() makes them fit).
  [[nodiscard]] std::span<std::byte> restore(const ReservoirState& state,
                                             std::span<const std::int64_t> order = {});

 private:
  // Index into the ring of a place counted from the oldest sample.
  [[nodiscard]] std::int64_t ring_index(std::int64_t position) const;
  [[nodiscard]] std::span<std::byte> memory_of(std::int64_t slot) const;
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
