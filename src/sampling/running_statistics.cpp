#include "kolo/sampling/running_statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

constexpr double largest = 1e140;  // 1e19 squares of twice as much still are a double

// Values on their way into the statistics: as many as stay in the nearest cache.
constexpr std::size_t block_size = 1024;

// A sum in several parts, which the compiler may add side by side.
template <typename Term>
double sum_of(std::span<const double> values, Term term) {
  constexpr std::size_t parts = 8;
  std::array<double, parts> sums{};
  std::size_t i = 0;
  for (; i + parts <= values.size(); i += parts)
    for (std::size_t part = 0; part < parts; ++part) sums[part] += term(values[i + part]);
  for (std::size_t part = 0; i < values.size(); ++i, ++part) sums[part] += term(values[i]);
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

// At least one value.
ChannelStatistics statistics_of(std::span<const double> values) {
  const auto count = static_cast<double>(values.size());
  // Numbers near 0 are added, which rounds less.
  const double first = values[0];
  const double mean = first + sum_of(values, [&](double value) { return value - first; }) / count;
  const double squares = sum_of(values, [&](double value) {
    const double difference = value - mean;
    return difference * difference;
  });
  return {.count = narrow<std::int64_t>(values.size()), .mean = mean, .squares = squares};
}

ChannelStatistics merged(const ChannelStatistics& a, const ChannelStatistics& b) {
  ChannelStatistics sum = a.count == 0 ? b : a;
  sum.left_out = checked_add(a.left_out, b.left_out);
  if (a.count == 0 || b.count == 0) return sum;
  sum.count = checked_add(a.count, b.count);
  const double difference = b.mean - a.mean;
  const double fraction = static_cast<double>(b.count) / static_cast<double>(sum.count);
  sum.mean = a.mean + difference * fraction;
  sum.squares =
      a.squares + b.squares + difference * difference * (static_cast<double>(a.count) * fraction);
  return sum;
}

}  // namespace

double ChannelStatistics::variance() const {
  return count == 0 ? 0 : squares / static_cast<double>(count);
}

double ChannelStatistics::scale(double rounding) const {
  const double deviation = std::sqrt(variance());
  return deviation > rounding * std::abs(mean) ? deviation : 1;
}

RunningStatistics::RunningStatistics(std::int64_t channels) {
  if (channels < 1)
    throw InputError(fmt::format("statistics: {} channels, expected 1 or more", channels));
  channels_.resize(static_cast<std::size_t>(channels));
}

template <typename T>
void RunningStatistics::add_values(std::int64_t channel, std::span<const T> values,
                                   std::int64_t stride) {
  if (channel < 0 || channel >= narrow<std::int64_t>(channels_.size()) || stride < 1) {
    throw Error(fmt::format(
        "statistics: values of channel {} with stride {}, expected a channel of 0 to {}, and a "
        "stride of 1 or more",
        channel, stride, channels_.size() - 1));
  }
  auto& statistics = channels_[static_cast<std::size_t>(channel)];
  const auto step = static_cast<std::size_t>(stride);
  const auto count = values.empty() ? 0 : (values.size() - 1) / step + 1;
  std::array<double, block_size> block;  // NOLINT: written before it is read; zeroing takes longer
  for (std::size_t begin = 0; begin < count; begin += block_size) {
    const auto end = std::min(begin + block_size, count);
    std::size_t usable = 0;
    for (auto i = begin; i < end; ++i) {
      const auto value = static_cast<double>(values[i * step]);
      block[usable] = value;
      usable +=
          std::islessequal(std::abs(value), largest) ? 1 : 0;  // false for NaN, without a trap
    }
    ChannelStatistics of_block;
    if (usable > 0) of_block = statistics_of(std::span(block).first(usable));
    of_block.left_out = narrow<std::int64_t>(end - begin - usable);
    statistics = merged(statistics, of_block);
  }
}

void RunningStatistics::add(std::int64_t channel, std::span<const float> values,
                            std::int64_t stride) {
  add_values(channel, values, stride);
}

void RunningStatistics::add(std::int64_t channel, std::span<const double> values,
                            std::int64_t stride) {
  add_values(channel, values, stride);
}

void RunningStatistics::count_samples(std::int64_t samples) {
  if (samples < 0) {
    throw Error(fmt::format("statistics: {} more samples, expected 0 or more", samples));
  }
  samples_ = checked_add(samples_, samples);
}

void RunningStatistics::merge(const RunningStatistics& other) {
  if (other.channels_.size() != channels_.size()) {
    throw Error(fmt::format("statistics: {} channels merged with {}", channels_.size(),
                            other.channels_.size()));
  }
  for (std::size_t i = 0; i < channels_.size(); ++i)
    channels_[i] = merged(channels_[i], other.channels_[i]);
  samples_ = checked_add(samples_, other.samples_);
}

void RunningStatistics::restore(std::int64_t samples, std::span<const ChannelStatistics> channels) {
  if (samples < 0 || channels.size() != channels_.size()) {
    throw InputError(
        fmt::format("statistics: {} samples of {} channels were saved, expected {} channels",
                    samples, channels.size(), channels_.size()));
  }
  for (const auto& each : channels) {
    if (each.count < 0 || each.left_out < 0 || !std::isfinite(each.mean) ||
        !std::isfinite(each.squares) || each.squares < 0) {
      throw InputError(
          fmt::format("statistics: a channel was saved with {} values, {} left out, mean {}, sum "
                      "of squares {}",
                      each.count, each.left_out, each.mean, each.squares));
    }
  }
  samples_ = samples;
  channels_.assign(channels.begin(), channels.end());
}

}  // namespace kolo
