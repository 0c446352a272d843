#include "kernels/loops.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kolo/base/vectorize.h"

namespace kolo {

namespace {

inline float number_of(float value) {
  return value;
}
inline float number_of(BFloat16 value) {
  return to_float(value);
}
// Sets a value from its number in float.
inline void set(float& value, float number) {
  value = number;
}
inline void set(BFloat16& value, float number) {
  value.bits = static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, number) >> 16);
}

// Loops of a fixed length, which become one vector each: loops over 10 channels or so would leave
// most over.
template <int lanes, typename T>
inline void pool_lanes(const T* __restrict top, const T* __restrict bottom, std::int64_t channels,
                       T* __restrict output, std::int32_t* __restrict winners) {
  for (int i = 0; i < lanes; ++i) {
    float best = number_of(top[i]);
    std::int32_t winner = 0;
    const auto challenge = [&](float value, std::int32_t number) {
      const bool wins = (value > best) | (value != value);  // a NaN as well
      best = wins ? value : best;
      winner = wins ? number : winner;
    };
    challenge(number_of(top[channels + i]), 1);
    challenge(number_of(bottom[i]), 2);
    challenge(number_of(bottom[channels + i]), 3);
    winners[i] = best <= 0 ? no_winner : winner;
    set(output[i], best <= 0 ? 0 : best);
  }
}

// Passes on the values whose winner has that number, 0 elsewhere.
template <int lanes, typename T>
inline void pass_on(const float* __restrict values, const std::int32_t* __restrict winners,
                    std::int32_t number, T* __restrict to) {
  float passed[lanes];
#pragma GCC unroll 1  // first to become vectors
  for (int i = 0; i < lanes; ++i) passed[i] = winners[i] == number ? values[i] : 0;
#pragma GCC unroll 1
  for (int i = 0; i < lanes; ++i) set(to[i], passed[i]);
}

template <int lanes, typename T>
inline void unpool_lanes(const T* __restrict gradient, const std::int32_t* __restrict winners,
                         T* __restrict first, T* __restrict second, T* __restrict third,
                         T* __restrict fourth) {
  float values[lanes];
#pragma GCC unroll 1
  for (int i = 0; i < lanes; ++i) values[i] = number_of(gradient[i]);
  pass_on<lanes>(values, winners, 0, first);
  pass_on<lanes>(values, winners, 1, second);
  pass_on<lanes>(values, winners, 2, third);
  pass_on<lanes>(values, winners, 3, fourth);
}

// Calls work<lanes>(first channel) until all channels are done, some of them twice: the last vector
// ends with the last channel.
template <typename Work>
inline void each_vector(std::int64_t channels, const Work& work) {
  constexpr int wide = 16, narrow = 8;
  std::int64_t done = 0;
  for (; done + wide <= channels; done += wide) work.template operator()<wide>(done);
  for (; done + narrow <= channels; done += narrow) work.template operator()<narrow>(done);
  if (done == channels) return;
  if (channels >= narrow) {
    work.template operator()<narrow>(channels - narrow);
  } else {
    for (; done < channels; ++done) work.template operator()<1>(done);
  }
}

template <typename T>
inline void pool_pixel(std::int64_t channels, const T* top, const T* bottom, T* output,
                       std::int32_t* winners) {
  each_vector(channels, [&]<int lanes>(std::int64_t c) {
    pool_lanes<lanes>(top + c, bottom + c, channels, output + c, winners + c);
  });
}

template <typename T>
inline void unpool_pixel(std::int64_t channels, const T* gradient, const std::int32_t* winners,
                         T* top, T* bottom) {
  each_vector(channels, [&]<int lanes>(std::int64_t c) {
    unpool_lanes<lanes>(gradient + c, winners + c, top + c, top + channels + c, bottom + c,
                        bottom + channels + c);
  });
}

// In vectors of sums, so that the order doesn't depend on the processor's.
inline double distances(std::int64_t count, const float* a, const float* b) {
  constexpr std::int64_t lanes = 16;
  float sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (std::int64_t lane = 0; lane < lanes; ++lane)
      sums[lane] += std::fabs(a[i + lane] - b[i + lane]);
  for (std::int64_t lane = 0; i < count; ++i, ++lane) sums[lane] += std::fabs(a[i] - b[i]);
  double sum = 0;
  for (const float each : sums) sum += static_cast<double>(each);
  return sum;
}

inline void set_slopes(std::int64_t count, const float* a, const float* b, float factor,
                       float* slopes) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float distance = a[i] - b[i];
    const float slope = distance > 0 ? factor : -factor;
    slopes[i] = distance == 0 || distance != distance ? distance : slope;
  }
}

}  // namespace

KOLO_VECTORIZE
double sum_distances(std::int64_t count, const float* a, const float* b, float factor,
                     float* slopes) {
  constexpr std::int64_t block = 2048;  // stays in a first-level cache for the second pass
  double sum = 0;
  for (std::int64_t first = 0; first < count; first += block) {
    const auto length = std::min(block, count - first);
    sum += distances(length, a + first, b + first);
    if (slopes != nullptr) set_slopes(length, a + first, b + first, factor, slopes + first);
  }
  return sum;
}

KOLO_VECTORIZE
void add_columns(const LineGeometry& line, const float* columns, std::int64_t row, float* input) {
  for (std::int64_t x = 0; x < line.output_length; ++x, columns += row) {
    const std::int64_t from = x * line.stride - line.padding;
    const std::int64_t first = std::max<std::int64_t>(0, -from);
    const std::int64_t last = std::min(line.taps, line.input_length - from);
    const float* __restrict values = columns + first * line.channels;
    float* __restrict into = input + (from + first) * line.channels;
    const std::int64_t count = (last - first) * line.channels;
    for (std::int64_t i = 0; i < count; ++i) into[i] += values[i];
  }
}

template <typename T>
KOLO_VECTORIZE void pool_image(const PoolingShape& shape, const T* input, T* output,
                               std::int32_t* winners) {
  const std::int64_t channels = shape.channels, row = shape.width * channels;
  for (std::int64_t y = 0; y < shape.pooled_height(); ++y) {
    const T* top = input + 2 * y * row;
    for (std::int64_t x = 0; x < shape.pooled_width(); ++x) {
      pool_pixel(channels, top, top + row, output, winners);
      top += 2 * channels;
      output += channels;
      winners += channels;
    }
  }
}

template <typename T>
KOLO_VECTORIZE void unpool_image(const PoolingShape& shape, const T* output_gradient,
                                 const std::int32_t* winners, T* input_gradient) {
  const std::int64_t channels = shape.channels, row = shape.width * channels;
  for (std::int64_t y = 0; y < shape.pooled_height(); ++y) {
    T* top = input_gradient + 2 * y * row;
    for (std::int64_t x = 0; x < shape.pooled_width(); ++x) {
      unpool_pixel(channels, output_gradient, winners, top, top + row);
      top += 2 * channels;
      output_gradient += channels;
      winners += channels;
    }
    // A last column or row without a window has no part in the output.
    if (shape.width % 2 != 0) {
      std::fill_n(top, channels, T{});
      std::fill_n(top + row, channels, T{});
    }
  }
  if (shape.height % 2 != 0) std::fill_n(input_gradient + (shape.height - 1) * row, row, T{});
}

template void pool_image(const PoolingShape&, const float*, float*, std::int32_t*);
template void unpool_image(const PoolingShape&, const float*, const std::int32_t*, float*);
template void pool_image(const PoolingShape&, const BFloat16*, BFloat16*, std::int32_t*);
template void unpool_image(const PoolingShape&, const BFloat16*, const std::int32_t*, BFloat16*);

}  // namespace kolo
