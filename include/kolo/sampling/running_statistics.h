#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kolo {

// Of the values of one channel; plain numbers for a checkpoint.
struct ChannelStatistics {
  std::int64_t count = 0;     // values that were counted
  std::int64_t left_out = 0;  // those that were not: see RunningStatistics
  double mean = 0;
  double squares = 0;  // the sum of the squared differences from the mean

  // Per value, not per value but one; 0 of none.
  [[nodiscard]] double variance() const;
  // What a difference from the mean is divided by to be of size 1: the standard deviation, or 1
  // where the values are all the same but for rounding (or none): a channel that doesn't vary
  // becomes 0, not infinite.
  [[nodiscard]] double scale() const;

  [[nodiscard]] bool operator==(const ChannelStatistics&) const = default;
};

// Mean and variance per channel of a stream of samples, in double, kept as Welford does (B. P.
// Welford, Technometrics 4(3), 1962), for whole arrays at a time: each block of an array is summed
// twice, for its mean and for its variance, and merged. Source: Chan, Golub, LeVeque, "Updating
// formulae and a pairwise algorithm for computing sample variances", COMPSTAT 1982; American
// Statistician 37(3), 1983. So values may be far from 0: what is lost of the variance is about
// 1e-16 of the squared mean, in each value.
//
// NaN and infinity are counted and left out, and so is what is beyond 1e140, whose square a double
// could not hold: one bad value must not spoil the statistics for ever.
//
// The same calls in the same order give the same bits, on any processor. Ranks that need the same
// statistics each add up their own, and merge all ranks' in one order, that of the ranks.
//
// Not thread-safe; the caller locks.
class RunningStatistics {
 public:
  // Frozen after `freeze_after` samples; 0: never. InputError unless channels >= 1, freeze_after
  // >= 0.
  explicit RunningStatistics(std::int64_t channels, std::int64_t freeze_after = 0);

  // Values of a channel, each stride-th of the span from its first on. Nothing once frozen. Error
  // unless 0 <= channel < channels, stride >= 1. Reads each value once from memory.
  void add(std::int64_t channel, std::span<const float> values, std::int64_t stride = 1);
  void add(std::int64_t channel, std::span<const double> values, std::int64_t stride = 1);
  // So many samples are complete, all channels of them. What freezes is this count, after all
  // channels of a sample or a batch. Nothing once frozen.
  void count_samples(std::int64_t samples);

  // What the other has seen comes after what this one has. Nothing once frozen. Error for another
  // number of channels. Statistics of ranks are merged with each other first, in ones that don't
  // freeze, then with those that do: so what freezes has seen all ranks alike.
  void merge(const RunningStatistics& other);

  [[nodiscard]] bool frozen() const { return freeze_after_ > 0 && samples_ >= freeze_after_; }
  [[nodiscard]] std::int64_t samples() const { return samples_; }
  [[nodiscard]] std::span<const ChannelStatistics> channels() const { return channels_; }

  // Becomes what was saved. InputError, and nothing changes, for another number of channels, a
  // negative count, or numbers that are not finite.
  void restore(std::int64_t samples, std::span<const ChannelStatistics> channels);

 private:
  template <typename T>
  void add_values(std::int64_t channel, std::span<const T> values, std::int64_t stride);

  std::int64_t freeze_after_;
  std::int64_t samples_ = 0;
  std::vector<ChannelStatistics> channels_;
};

}  // namespace kolo
