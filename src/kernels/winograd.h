#pragma once

#include <cstdint>
#include <vector>

// The transforms of minimal algorithms for convolutions (Winograd, 1980; Lavin and Gray, 2016): a
// tile of outputs takes fewer products than it has taps and positions, of values that are sums of a
// window of inputs, and sums of taps. The loops are in vector_loops.h.
namespace kolo::winograd {

// Along each dimension: three taps that move by one, four outputs from six products; or four taps
// that move by two, which are two kernels of two taps, one on the even positions and one on the odd
// ones (phases), two outputs from three products of each.
enum class Algorithm { four_of_three_taps, two_of_four_taps };

// Lengths of one dimension of a tile.
struct Lengths {
  std::int64_t taps = 0, stride = 0, outputs = 0, window = 0, products = 0;
};
[[nodiscard]] Lengths lengths_of(Algorithm algorithm);

// Directions of the transforms. Values "at" positions become coefficients: inputs (a window),
// gradients of outputs (a tile) and taps. Coefficients become outputs, and gradients of inputs and
// taps.
enum class Spread { inputs, output_gradients, taps };
enum class Collect { outputs, input_gradients, tap_gradients };

// Offsets of a tile's coefficients, each a vector of channels: `product` from one product to the
// next and `phase` from one phase to the next, counted with the last dimension running fastest.
class Offsets {
 public:
  Offsets(Algorithm algorithm, int dimensions, bool has_phases, std::int64_t product,
          std::int64_t phase);

  [[nodiscard]] int dimensions() const { return dimensions_; }
  // Offset of a coefficient by its number along the first dimension, and along the others together.
  [[nodiscard]] std::int64_t first(std::int64_t i) const {
    return first_[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] std::int64_t rest(std::int64_t i) const {
    return rest_[static_cast<std::size_t>(i)];
  }

 private:
  int dimensions_;
  std::vector<std::int64_t> first_, rest_;
};

}  // namespace kolo::winograd
