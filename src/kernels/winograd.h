#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/half.h"

// The transforms of minimal algorithms for convolutions (Winograd, 1980; Lavin and Gray, 2016): a
// tile of outputs takes fewer products than it has taps and positions, of values that are sums of a
// window of inputs, and sums of taps. Only for processors with vectors of 8 floats or more.
namespace kolo::winograd {

[[nodiscard]] bool is_supported();

// Along each dimension: three taps that move by one, four outputs from six products; or four taps
// that move by two, which are two kernels of two taps, one on the even positions and one on the odd
// ones (phases), two outputs from three products of each.
enum class Algorithm { four_of_three_taps, two_of_four_taps };

// Of one dimension of a tile.
struct Lengths {
  std::int64_t taps = 0, stride = 0, outputs = 0, window = 0, products = 0;
};
[[nodiscard]] Lengths lengths_of(Algorithm algorithm);

// What is transformed. Values "at" positions become coefficients: of inputs (a window), of
// gradients of outputs (a tile) and of taps. Coefficients become outputs, gradients of inputs and
// of taps.
enum class Spread { inputs, output_gradients, taps };
enum class Collect { outputs, input_gradients, tap_gradients };

// Where a tile's coefficients lie, each a vector of channels: `product` from one product to the
// next and `phase` from one phase to the next, counted with the last dimension running fastest.
class Places {
 public:
  Places(Algorithm algorithm, int dimensions, bool has_phases, std::int64_t product,
         std::int64_t phase);

  [[nodiscard]] int dimensions() const { return dimensions_; }
  [[nodiscard]] std::int64_t count() const { return count_; }  // along a dimension
  // Of a coefficient by its number along the first dimension, and along the others together.
  [[nodiscard]] std::int64_t first(std::int64_t i) const {
    return first_[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] std::int64_t rest(std::int64_t i) const {
    return rest_[static_cast<std::size_t>(i)];
  }

 private:
  int dimensions_;
  std::int64_t count_;
  std::vector<std::int64_t> first_, rest_;
};

// Channels are a multiple of 16.

// `at` has a pointer for each position of the window, tile or kernel, with the last dimension
// running fastest; for padding, to zeros. Coefficients are float32, whose sums rounding to bfloat16
// would cost too many digits; values may be bfloat16, which taps are not.
void spread(Algorithm algorithm, Spread what, const float* const* at, std::int64_t channels,
            const Places& places, float* coefficients);
void spread(Algorithm algorithm, Spread what, const BFloat16* const* at, std::int64_t channels,
            const Places& places, float* coefficients);

// A null pointer in `at` is a position that is none. Gradients of inputs are added to what is
// there, as windows overlap; `bias` may be null.
void collect(Algorithm algorithm, Collect what, const float* coefficients, const Places& places,
             std::int64_t channels, const float* bias, float* const* at);
// Of outputs.
void collect(Algorithm algorithm, Collect what, const float* coefficients, const Places& places,
             std::int64_t channels, const float* bias, BFloat16* const* at);

}  // namespace kolo::winograd
