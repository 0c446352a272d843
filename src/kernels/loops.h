#pragma once

#include <cstdint>

#include "base/half.h"

// The loops of batch_norm, convolutions, max_pool_relu and the l1 loss, in channels-last
// memory: compiled for vectors.
namespace kolo {

struct ChannelRows {
  std::int64_t count = 0;
  std::int64_t channels = 0;
};

// Loops over values of type T exist for float and BFloat16. Loops over rows (norm_loops.cpp)
// compute in float whatever lies in memory.

// By channel, of all rows: the sums of x - shift and of (x - shift)^2. With a shift near the mean
// nothing cancels in the variance that follows from them.
template <typename T>
void sum_distances(const ChannelRows& rows, const T* values, const float* shift, double* sums,
                   double* squares);

// slope x + offset, plus the addend where there is one, and no less than 0 if `relu`.
template <typename T>
void normalize(const ChannelRows& rows, const T* values, const float* slope, const float* offset,
               const T* addend, bool relu, T* output);

// Adds to every row.
template <typename T>
void add_to_rows(const ChannelRows& rows, const float* addend, T* values);

// By channel, of all rows: the sums of g and of g (x - mean), g being the gradient, or 0 where the
// output (null: none counts) is not above 0. `kept`: where g is written to, if not null.
template <typename T>
void sum_gradients(const ChannelRows& rows, const T* gradient, const T* output, const T* values,
                   const float* mean, T* kept, double* sums, double* products);

// slope g - tilt (x - mean) - level, with g as above.
template <typename T>
void normalize_gradient(const ChannelRows& rows, const T* gradient, const T* output,
                        const T* values, const float* mean, const float* slope, const float* tilt,
                        const float* level, T* of_values);

// The sum of |a - b| over `count` values. `slopes`, where not null, gets the sum's gradient to a,
// times `factor`: 0 where both are alike, NaN where one is.
double sum_distances(std::int64_t count, const float* a, const float* b, float factor,
                     float* slopes);

// Lines along the last dimension of a convolution's input, [length, channels] in memory, and
// output, whose every position comes from `taps` neighbours.
struct LineGeometry {
  std::int64_t input_length = 0, output_length = 0, channels = 0;
  std::int64_t taps = 0, stride = 0, padding = 0;
};

// Adds the columns of an output line to an input line. Row x of `columns`, rows being `row` values
// apart, is [taps, channels] for the neighbours of position x. Padding is left out.
void add_columns(const LineGeometry& line, const float* columns, std::int64_t row, float* input);

// The largest value of a 2 x 2 window has a number, 0 to 3 by rows; this one says that none is
// above zero.
inline constexpr std::int32_t no_winner = 4;

struct PoolingShape {
  std::int64_t height = 0, width = 0, channels = 0;  // of one input image

  [[nodiscard]] std::int64_t pooled_height() const { return height / 2; }
  [[nodiscard]] std::int64_t pooled_width() const { return width / 2; }
  [[nodiscard]] std::int64_t values() const { return height * width * channels; }
  [[nodiscard]] std::int64_t pooled_values() const {
    return pooled_height() * pooled_width() * channels;
  }
};

// The largest value of each 2x2 window, or 0 if that is larger. A NaN wins.
template <typename T>
void pool_image(const PoolingShape& shape, const T* input, T* output, std::int32_t* winners);

// The gradient of every input value: its window's, or 0.
template <typename T>
void unpool_image(const PoolingShape& shape, const T* output_gradient, const std::int32_t* winners,
                  T* input_gradient);

}  // namespace kolo
