#include "nn/kernels/loops.h"

#include <algorithm>
#include <array>

#include "kolo/base/vectorize.h"

namespace kolo {

namespace {

// Calls work<lanes>(first channel) for tiles that cover the channels, each of a fixed length: the
// compiler keeps its sums in vectors.
template <typename Work>
KOLO_INLINE inline void each_tile(std::int64_t channels, const Work& work) {
  std::int64_t done = 0;
  for (; done + 32 <= channels; done += 32) work.template operator()<32>(done);
  for (; done + 8 <= channels; done += 8) work.template operator()<8>(done);
  for (; done < channels; ++done) work.template operator()<1>(done);
}

// Calls work(first row, rows) for blocks that stay in the first-level cache from tile to tile, and
// are short enough for sums in float.
template <typename Work>
KOLO_INLINE inline void each_block(const ChannelRows& rows, const Work& work) {
  constexpr std::int64_t cached_values = 4096, most_rows = 128, least_rows = 8;
  const auto block = std::clamp(cached_values / rows.channels, least_rows, most_rows);
  for (std::int64_t row = 0; row < rows.count; row += block)
    work(row, std::min(block, rows.count - row));
}

template <int lanes>
KOLO_INLINE inline void sum_distances_of(std::int64_t count, std::int64_t channels,
                                         const float* __restrict values,
                                         const float* __restrict shift, double* __restrict sums,
                                         double* __restrict squares) {
  std::array<float, lanes> sum{}, square{};
  for (std::int64_t row = 0; row < count; ++row, values += channels) {
    for (int lane = 0; lane < lanes; ++lane) {
      const float distance = values[lane] - shift[lane];
      sum[lane] += distance;
      square[lane] += distance * distance;
    }
  }
  for (int lane = 0; lane < lanes; ++lane) {
    sums[lane] += sum[lane];
    squares[lane] += square[lane];
  }
}

template <bool adds, bool relu>
KOLO_INLINE inline void normalize_rows(const ChannelRows& rows, const float* __restrict values,
                                       const float* __restrict slope,
                                       const float* __restrict offset,
                                       const float* __restrict addend, float* __restrict output) {
  for (std::int64_t row = 0; row < rows.count; ++row) {
    for (std::int64_t i = 0; i < rows.channels; ++i) {
      float value = values[i] * slope[i] + offset[i];
      if constexpr (adds) value += addend[i];
      // A NaN stays one.
      if constexpr (relu) value = value < 0 ? 0 : value;
      output[i] = value;
    }
    values += rows.channels;
    output += rows.channels;
    if constexpr (adds) addend += rows.channels;
  }
}

template <int lanes, bool relu, bool keeps>
KOLO_INLINE inline void sum_gradients_of(std::int64_t count, std::int64_t channels,
                                         const float* __restrict gradient,
                                         const float* __restrict output,
                                         const float* __restrict values,
                                         const float* __restrict mean, float* __restrict kept,
                                         double* __restrict sums, double* __restrict products) {
  std::array<float, lanes> sum{}, product{};
  for (std::int64_t row = 0; row < count; ++row) {
    for (int lane = 0; lane < lanes; ++lane) {
      float g = gradient[lane];
      if constexpr (relu) g = output[lane] <= 0 ? 0 : g;
      if constexpr (keeps) kept[lane] = g;
      sum[lane] += g;
      product[lane] += g * (values[lane] - mean[lane]);
    }
    gradient += channels;
    values += channels;
    if constexpr (relu) output += channels;
    if constexpr (keeps) kept += channels;
  }
  for (int lane = 0; lane < lanes; ++lane) {
    sums[lane] += sum[lane];
    products[lane] += product[lane];
  }
}

template <bool relu, bool keeps>
KOLO_INLINE inline void sum_gradients_rows(const ChannelRows& rows, const float* gradient,
                                           const float* output, const float* values,
                                           const float* mean, float* kept, double* sums,
                                           double* products) {
  each_block(rows, [&](std::int64_t row, std::int64_t count) KOLO_INLINE {
    const std::int64_t at = row * rows.channels;
    each_tile(rows.channels, [&]<int lanes>(std::int64_t i) KOLO_INLINE {
      sum_gradients_of<lanes, relu, keeps>(
          count, rows.channels, gradient + at + i, relu ? output + at + i : nullptr,
          values + at + i, mean + i, keeps ? kept + at + i : nullptr, sums + i, products + i);
    });
  });
}

template <bool relu>
KOLO_INLINE inline void normalize_gradient_rows(
    const ChannelRows& rows, const float* __restrict gradient, const float* __restrict output,
    const float* __restrict values, const float* __restrict mean, const float* __restrict slope,
    const float* __restrict tilt, const float* __restrict level, float* __restrict of_values) {
  for (std::int64_t row = 0; row < rows.count; ++row) {
    for (std::int64_t i = 0; i < rows.channels; ++i) {
      float g = gradient[i];
      if constexpr (relu) g = output[i] <= 0 ? 0 : g;
      of_values[i] = slope[i] * g - tilt[i] * (values[i] - mean[i]) - level[i];
    }
    gradient += rows.channels;
    values += rows.channels;
    of_values += rows.channels;
    if constexpr (relu) output += rows.channels;
  }
}

// Loops of a fixed length, which become one vector each: of those over 10 channels or so most
// would be left over.
template <int lanes>
inline void pool_lanes(const float* __restrict top, const float* __restrict bottom,
                       std::int64_t channels, float* __restrict output,
                       std::int32_t* __restrict winners) {
  for (int i = 0; i < lanes; ++i) {
    float best = top[i];
    std::int32_t winner = 0;
    const auto challenge = [&](float value, std::int32_t number) {
      const bool wins = (value > best) | (value != value);  // a NaN as well
      best = wins ? value : best;
      winner = wins ? number : winner;
    };
    challenge(top[channels + i], 1);
    challenge(bottom[i], 2);
    challenge(bottom[channels + i], 3);
    winners[i] = best <= 0 ? no_winner : winner;
    output[i] = best <= 0 ? 0 : best;
  }
}

template <int lanes>
inline void unpool_lanes(const float* __restrict gradient, const std::int32_t* __restrict winners,
                         float* __restrict first, float* __restrict second, float* __restrict third,
                         float* __restrict fourth) {
#pragma GCC unroll 1  // first to become vectors
  for (int i = 0; i < lanes; ++i) {
    const float value = gradient[i];
    const std::int32_t winner = winners[i];
    first[i] = winner == 0 ? value : 0;
    second[i] = winner == 1 ? value : 0;
    third[i] = winner == 2 ? value : 0;
    fourth[i] = winner == 3 ? value : 0;
  }
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

inline void pool_pixel(std::int64_t channels, const float* top, const float* bottom, float* output,
                       std::int32_t* winners) {
  each_vector(channels, [&]<int lanes>(std::int64_t c) {
    pool_lanes<lanes>(top + c, bottom + c, channels, output + c, winners + c);
  });
}

inline void unpool_pixel(std::int64_t channels, const float* gradient, const std::int32_t* winners,
                         float* top, float* bottom) {
  each_vector(channels, [&]<int lanes>(std::int64_t c) {
    unpool_lanes<lanes>(gradient + c, winners + c, top + c, top + channels + c, bottom + c,
                        bottom + channels + c);
  });
}

}  // namespace

KOLO_VECTORIZE
void sum_distances(const ChannelRows& rows, const float* values, const float* shift, double* sums,
                   double* squares) {
  std::fill_n(sums, rows.channels, 0);
  std::fill_n(squares, rows.channels, 0);
  each_block(rows, [&](std::int64_t row, std::int64_t count) KOLO_INLINE {
    each_tile(rows.channels, [&]<int lanes>(std::int64_t i) KOLO_INLINE {
      sum_distances_of<lanes>(count, rows.channels, values + row * rows.channels + i, shift + i,
                              sums + i, squares + i);
    });
  });
}

KOLO_VECTORIZE
void normalize(const ChannelRows& rows, const float* values, const float* slope,
               const float* offset, const float* addend, bool relu, float* output) {
  if (addend != nullptr && relu)
    normalize_rows<true, true>(rows, values, slope, offset, addend, output);
  else if (addend != nullptr)
    normalize_rows<true, false>(rows, values, slope, offset, addend, output);
  else if (relu)
    normalize_rows<false, true>(rows, values, slope, offset, nullptr, output);
  else
    normalize_rows<false, false>(rows, values, slope, offset, nullptr, output);
}

KOLO_VECTORIZE
void sum_gradients(const ChannelRows& rows, const float* gradient, const float* output,
                   const float* values, const float* mean, float* kept, double* sums,
                   double* products) {
  std::fill_n(sums, rows.channels, 0);
  std::fill_n(products, rows.channels, 0);
  if (output != nullptr && kept != nullptr)
    sum_gradients_rows<true, true>(rows, gradient, output, values, mean, kept, sums, products);
  else if (output != nullptr)
    sum_gradients_rows<true, false>(rows, gradient, output, values, mean, kept, sums, products);
  else if (kept != nullptr)
    sum_gradients_rows<false, true>(rows, gradient, output, values, mean, kept, sums, products);
  else
    sum_gradients_rows<false, false>(rows, gradient, output, values, mean, kept, sums, products);
}

KOLO_VECTORIZE
void normalize_gradient(const ChannelRows& rows, const float* gradient, const float* output,
                        const float* values, const float* mean, const float* slope,
                        const float* tilt, const float* level, float* of_values) {
  if (output != nullptr)
    normalize_gradient_rows<true>(rows, gradient, output, values, mean, slope, tilt, level,
                                  of_values);
  else
    normalize_gradient_rows<false>(rows, gradient, output, values, mean, slope, tilt, level,
                                   of_values);
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

KOLO_VECTORIZE
void pool_image(const PoolingShape& shape, const float* input, float* output,
                std::int32_t* winners) {
  const std::int64_t channels = shape.channels, row = shape.width * channels;
  for (std::int64_t y = 0; y < shape.pooled_height(); ++y) {
    const float* top = input + 2 * y * row;
    for (std::int64_t x = 0; x < shape.pooled_width(); ++x) {
      pool_pixel(channels, top, top + row, output, winners);
      top += 2 * channels;
      output += channels;
      winners += channels;
    }
  }
}

KOLO_VECTORIZE
void unpool_image(const PoolingShape& shape, const float* output_gradient,
                  const std::int32_t* winners, float* input_gradient) {
  const std::int64_t channels = shape.channels, row = shape.width * channels;
  for (std::int64_t y = 0; y < shape.pooled_height(); ++y) {
    float* top = input_gradient + 2 * y * row;
    for (std::int64_t x = 0; x < shape.pooled_width(); ++x) {
      unpool_pixel(channels, output_gradient, winners, top, top + row);
      top += 2 * channels;
      output_gradient += channels;
      winners += channels;
    }
    // A last column or row without a window has no part in the output.
    if (shape.width % 2 != 0) {
      std::fill_n(top, channels, 0.0F);
      std::fill_n(top + row, channels, 0.0F);
    }
  }
  if (shape.height % 2 != 0) std::fill_n(input_gradient + (shape.height - 1) * row, row, 0.0F);
}

}  // namespace kolo
