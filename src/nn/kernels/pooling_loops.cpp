#include "nn/kernels/pooling_loops.h"

#include <algorithm>
#include <cstring>

#include "kolo/base/vectorize.h"

namespace kolo {

namespace {

// GCC's vectors, which it takes apart where the processor's are shorter. Its own vectoriser makes
// little of these loops, in which 10 channels or so leave more over than they fill.
template <int lanes>
struct Vectors {
  typedef float Floats __attribute__((vector_size(4 * lanes)));
  typedef std::int32_t Numbers __attribute__((vector_size(4 * lanes)));
};

template <typename Vector, typename Value>
inline void load(Vector& vector, const Value* from) {
  std::memcpy(&vector, from, sizeof vector);
}

template <typename Vector, typename Value>
inline void store(const Vector& vector, Value* to) {
  std::memcpy(to, &vector, sizeof vector);
}

template <int lanes>
inline void pool_lanes(const float* top, const float* bottom, std::int64_t channels, float* output,
                       std::int32_t* winners) {
  using Numbers = typename Vectors<lanes>::Numbers;
  typename Vectors<lanes>::Floats best, value;
  Numbers winner = {};
  load(best, top);
  const float* const others[] = {top + channels, bottom, bottom + channels};
  for (std::int32_t i = 0; i < 3; ++i) {
    load(value, others[i]);
    const Numbers wins = (value > best) | (value != value);
    best = wins ? value : best;
    winner = wins ? Numbers{} + (i + 1) : winner;
  }
  const Numbers passes = ~(best <= 0);
  best = passes ? best : typename Vectors<lanes>::Floats{};
  winner = passes ? winner : Numbers{} + no_winner;
  store(best, output);
  store(winner, winners);
}

template <int lanes>
inline void unpool_lanes(const float* gradient, const std::int32_t* winners, std::int64_t channels,
                         float* top, float* bottom) {
  using Numbers = typename Vectors<lanes>::Numbers;
  typename Vectors<lanes>::Floats value, given;
  Numbers winner;
  load(value, gradient);
  load(winner, winners);
  float* const targets[] = {top, top + channels, bottom, bottom + channels};
  for (std::int32_t i = 0; i < 4; ++i) {
    given = (winner == i) ? value : typename Vectors<lanes>::Floats{};
    store(given, targets[i]);
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
    unpool_lanes<lanes>(gradient + c, winners + c, channels, top + c, bottom + c);
  });
}

}  // namespace

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
