#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace kolo {

// Differences of these fractions of a mean are rounding, of values or of sums.
inline constexpr double float64_rounding = 1e-13;
inline constexpr double float32_rounding = std::numeric_limits<float>::epsilon();

// Statistics of the values of one channel, for a checkpoint.
struct ChannelStatistics {
  std::int64_t count = 0;     // values that were counted
  std::int64_t left_out = 0;  // values that were not: see RunningStatistics
  double mean = 0;
  double squares = 0;  // the sum of the squared differences from the mean

  // Variance with the divisor `count`; 0 without values.
  [[nodiscard]] double variance() const;
  // Divisor that normalizes differences from the mean: the standard deviation, or 1 for a channel
  // that doesn't vary but for rounding, which becomes 0 rather than infinite. `rounding`: the
  // fraction of the mean up to which a deviation is that, float32_rounding for values of float32.
  [[nodiscard]] double scale(double rounding = float64_rounding) const;

  [[nodiscard]] bool operator==(const ChannelStatistics&) const = default;
};

// Mean and variance per channel of a stream of samples, in double, for whole arrays at a time: each
// block of an array is summed twice, for its mean and for its variance, and merged (Chan, Golub,
// LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", COMPSTAT
// 1982). So values may be far from 0: the variance loses about 1e-16 of the squared mean.
//
// NaN, infinity and values beyond 1e140, whose squares overflow a double, are counted and left out:
// one bad value must not spoil the statistics for ever.
//
// The same calls in the same order give the same bits, on any processor. Ranks that need the same
// statistics each add up their own, and merge all ranks' in the order of the ranks.
//
// Not thread-safe; the caller locks.
class RunningStatistics {
 public:
  // InputError unless channels >= 1.
  explicit RunningStatistics(std::int64_t channels);

  // Adds values of a channel, every stride-th of the span from its first on. Error unless
  // 0 <= channel < channels, stride >= 1. Reads each value once from memory.
  void add(std::int64_t channel, std::span<const float> values, std::int64_t stride = 1);
  void add(std::int64_t channel, std::span<const double> values, std::int64_t stride = 1);
  // Counts samples all of whose channels were added.
  void count_samples(std::int64_t samples);

  // Adds what the other has seen after what this one has. Error for another number of channels.
  void merge(const RunningStatistics& other);

  [[nodiscard]] std::int64_t samples() const { return samples_; }
  [[nodiscard]] std::span<const ChannelStatistics> channels() const { return channels_; }

  // Restores what was saved. InputError, without any change, for another number of channels, a
  // negative count, or numbers that are not finite.
  void restore(std::int64_t samples, std::span<const ChannelStatistics> channels);

 private:
  template <typename T>
  void add_values(std::int64_t channel, std::span<const T> values, std::int64_t stride);

  std::int64_t samples_ = 0;
  std::vector<ChannelStatistics> channels_;
};

}  // namespace kolo
