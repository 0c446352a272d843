#pragma once

#include <cstdint>

// The loops of batch_norm, over rows of channels: channels-last memory, one row a position.
namespace kolo {

struct ChannelRows {
  std::int64_t count = 0;
  std::int64_t channels = 0;
};

// By channel, of all rows: the sums of x - shift and of (x - shift)^2. With a shift near the mean
// nothing cancels in the variance that follows from them.
void sum_distances(const ChannelRows& rows, const float* values, const float* shift, double* sums,
                   double* squares);

// slope x + offset, plus the addend where there is one, and no less than 0 if `relu`.
void normalize(const ChannelRows& rows, const float* values, const float* slope,
               const float* offset, const float* addend, bool relu, float* output);

// By channel, of all rows: the sums of g and of g (x - mean), g being the gradient, or 0 where the
// output (null: none counts) is not above 0. `kept`: where g is written to, if not null.
void sum_gradients(const ChannelRows& rows, const float* gradient, const float* output,
                   const float* values, const float* mean, float* kept, double* sums,
                   double* products);

// slope g - tilt (x - mean) - level, with g as above.
void normalize_gradient(const ChannelRows& rows, const float* gradient, const float* output,
                        const float* values, const float* mean, const float* slope,
                        const float* tilt, const float* level, float* of_values);

}  // namespace kolo
