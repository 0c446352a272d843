#include "kernels/loops.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "base/half.h"
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

// Fetches what a tile's row has in the next block, which the processor doesn't foresee.
template <int lanes, typename T>
KOLO_INLINE inline void fetch(const T* values) {
  constexpr int line = 64 / sizeof(T);
  for (int lane = 0; lane < lanes; lane += line) __builtin_prefetch(values + lane);
}

// Values in memory may be rounded to bfloat16; computation is in float.
KOLO_INLINE inline float load(float value) {
  return value;
}
KOLO_INLINE inline float load(BFloat16 value) {
  return to_float(value);
}
template <typename T>
KOLO_INLINE inline T stored(float value) {
  if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(value);
  else
    return value;
}

template <int lanes, typename T>
KOLO_INLINE inline void sum_distances_of(std::int64_t count, std::int64_t channels,
                                         const T* __restrict values, const float* __restrict shift,
                                         double* __restrict sums, double* __restrict squares) {
  std::array<float, lanes> sum{}, square{};
  for (std::int64_t row = 0; row < count; ++row, values += channels) {
    fetch<lanes>(values + count * channels);
    for (int lane = 0; lane < lanes; ++lane) {
      const float distance = load(values[lane]) - shift[lane];
      sum[lane] += distance;
      square[lane] += distance * distance;
    }
  }
  for (int lane = 0; lane < lanes; ++lane) {
    sums[lane] += sum[lane];
    squares[lane] += square[lane];
  }
}

template <bool adds, bool relu, typename T>
KOLO_INLINE inline void normalize_lines(const ChannelRows& rows, const T* __restrict values,
                                        const float* __restrict slope,
                                        const float* __restrict offset, const T* __restrict addend,
                                        T* __restrict output) {
  for (std::int64_t row = 0; row < rows.count; ++row) {
    for (std::int64_t i = 0; i < rows.channels; ++i) {
      float value = load(values[i]) * slope[i] + offset[i];
      if constexpr (adds) value += load(addend[i]);
      // A NaN stays one.
      if constexpr (relu) value = value < 0 ? 0 : value;
      output[i] = stored<T>(value);
    }
    values += rows.channels;
    output += rows.channels;
    if constexpr (adds) addend += rows.channels;
  }
}

template <int lanes, bool relu, bool keeps, typename T>
KOLO_INLINE inline void sum_gradients_of(std::int64_t count, std::int64_t channels,
                                         const T* __restrict gradient, const T* __restrict output,
                                         const T* __restrict values, const float* __restrict mean,
                                         T* __restrict kept, double* __restrict sums,
                                         double* __restrict products) {
  std::array<float, lanes> sum{}, product{};
  for (std::int64_t row = 0; row < count; ++row) {
    fetch<lanes>(values + count * channels);
    fetch<lanes>(gradient + count * channels);
    if constexpr (relu) fetch<lanes>(output + count * channels);
    for (int lane = 0; lane < lanes; ++lane) {
      float g = load(gradient[lane]);
      if constexpr (relu) g = load(output[lane]) <= 0 ? 0 : g;
      if constexpr (keeps) kept[lane] = stored<T>(g);
      sum[lane] += g;
      product[lane] += g * (load(values[lane]) - mean[lane]);
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

template <bool relu, bool keeps, typename T>
KOLO_INLINE inline void sum_gradients_tiles(const ChannelRows& rows, const T* gradient,
                                            const T* output, const T* values, const float* mean,
                                            T* kept, double* sums, double* products) {
  each_block(rows, [&](std::int64_t row, std::int64_t count) KOLO_INLINE {
    const std::int64_t at = row * rows.channels;
    each_tile(rows.channels, [&]<int lanes>(std::int64_t i) KOLO_INLINE {
      sum_gradients_of<lanes, relu, keeps>(
          count, rows.channels, gradient + at + i, relu ? output + at + i : nullptr,
          values + at + i, mean + i, keeps ? kept + at + i : nullptr, sums + i, products + i);
    });
  });
}

template <bool relu, typename T>
KOLO_INLINE inline void normalize_gradient_lines(
    const ChannelRows& rows, const T* __restrict gradient, const T* __restrict output,
    const T* __restrict values, const float* __restrict mean, const float* __restrict slope,
    const float* __restrict tilt, const float* __restrict level, T* __restrict of_values) {
  for (std::int64_t row = 0; row < rows.count; ++row) {
    for (std::int64_t i = 0; i < rows.channels; ++i) {
      float g = load(gradient[i]);
      if constexpr (relu) g = load(output[i]) <= 0 ? 0 : g;
      of_values[i] = stored<T>(slope[i] * g - tilt[i] * (load(values[i]) - mean[i]) - level[i]);
    }
    gradient += rows.channels;
    values += rows.channels;
    of_values += rows.channels;
    if constexpr (relu) output += rows.channels;
  }
}

}  // namespace

template <typename T>
KOLO_VECTORIZE void sum_distances(const ChannelRows& rows, const T* values, const float* shift,
                                  double* sums, double* squares) {
  std::fill_n(sums, rows.channels, 0);
  std::fill_n(squares, rows.channels, 0);
  each_block(rows, [&](std::int64_t row, std::int64_t count) KOLO_INLINE {
    each_tile(rows.channels, [&]<int lanes>(std::int64_t i) KOLO_INLINE {
      sum_distances_of<lanes>(count, rows.channels, values + row * rows.channels + i, shift + i,
                              sums + i, squares + i);
    });
  });
}

template <typename T>
KOLO_VECTORIZE void normalize(const ChannelRows& rows, const T* values, const float* slope,
                              const float* offset, const T* addend, bool relu, T* output) {
  if (addend != nullptr && relu)
    normalize_lines<true, true>(rows, values, slope, offset, addend, output);
  else if (addend != nullptr)
    normalize_lines<true, false>(rows, values, slope, offset, addend, output);
  else if (relu)
    normalize_lines<false, true>(rows, values, slope, offset, addend, output);
  else
    normalize_lines<false, false>(rows, values, slope, offset, addend, output);
}

template <typename T>
KOLO_VECTORIZE void add_to_rows(const ChannelRows& rows, const float* __restrict addend,
                                T* __restrict values) {
  for (std::int64_t row = 0; row < rows.count; ++row, values += rows.channels) {
    for (std::int64_t i = 0; i < rows.channels; ++i)
      values[i] = stored<T>(load(values[i]) + addend[i]);
  }
}

template <typename T>
KOLO_VECTORIZE void sum_gradients(const ChannelRows& rows, const T* gradient, const T* output,
                                  const T* values, const float* mean, T* kept, double* sums,
                                  double* products) {
  std::fill_n(sums, rows.channels, 0);
  std::fill_n(products, rows.channels, 0);
  if (output != nullptr && kept != nullptr)
    sum_gradients_tiles<true, true>(rows, gradient, output, values, mean, kept, sums, products);
  else if (output != nullptr)
    sum_gradients_tiles<true, false>(rows, gradient, output, values, mean, kept, sums, products);
  else if (kept != nullptr)
    sum_gradients_tiles<false, true>(rows, gradient, output, values, mean, kept, sums, products);
  else
    sum_gradients_tiles<false, false>(rows, gradient, output, values, mean, kept, sums, products);
}

template <typename T>
KOLO_VECTORIZE void normalize_gradient(const ChannelRows& rows, const T* gradient, const T* output,
                                       const T* values, const float* mean, const float* slope,
                                       const float* tilt, const float* level, T* of_values) {
  if (output != nullptr)
    normalize_gradient_lines<true>(rows, gradient, output, values, mean, slope, tilt, level,
                                   of_values);
  else
    normalize_gradient_lines<false>(rows, gradient, output, values, mean, slope, tilt, level,
                                    of_values);
}

template void sum_distances(const ChannelRows&, const float*, const float*, double*, double*);
template void normalize(const ChannelRows&, const float*, const float*, const float*, const float*,
                        bool, float*);
template void add_to_rows(const ChannelRows&, const float*, float*);
template void sum_gradients(const ChannelRows&, const float*, const float*, const float*,
                            const float*, float*, double*, double*);
template void normalize_gradient(const ChannelRows&, const float*, const float*, const float*,
                                 const float*, const float*, const float*, const float*, float*);
template void sum_distances(const ChannelRows&, const BFloat16*, const float*, double*, double*);
template void normalize(const ChannelRows&, const BFloat16*, const float*, const float*,
                        const BFloat16*, bool, BFloat16*);
template void add_to_rows(const ChannelRows&, const float*, BFloat16*);
template void sum_gradients(const ChannelRows&, const BFloat16*, const BFloat16*, const BFloat16*,
                            const float*, BFloat16*, double*, double*);
template void normalize_gradient(const ChannelRows&, const BFloat16*, const BFloat16*,
                                 const BFloat16*, const float*, const float*, const float*,
                                 const float*, BFloat16*);

}  // namespace kolo
