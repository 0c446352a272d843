#pragma once

#include <cstdint>
#include <vector>

#include <torch/types.h>

#include "kernels/convolution_kernel.h"
#include "kernels/winograd.h"

namespace kolo::winograd {

// From `first` on, so many channels or tiles.
struct Range {
  std::int64_t first = 0, count = 0;

  [[nodiscard]] std::int64_t end() const { return first + count; }
};

// Coefficients of tiles: a matrix for each product, `product` values from one to the next. A tile's
// row has its channels; of inputs, those of one phase after those of another.
struct Coefficients {
  float* data = nullptr;
  std::int64_t product = 0;

  [[nodiscard]] Coefficients from_row(std::int64_t row, std::int64_t length) const {
    return {data + row * length, product};
  }
};

// Positions along all dimensions, the last one running fastest, and vectors of channels at them.
class Grid {
 public:
  Grid(std::vector<std::int64_t> size, std::int64_t channels);

  // Pointers to the vectors of a box of `length` positions in each dimension, from `first` on;
  // `outside` where there is none.
  template <typename T>
  void box(T* data, std::int64_t sample, const std::vector<std::int64_t>& first,
           std::int64_t length, T* outside, std::vector<T*>& at) const {
    at.clear();
    add_lines(data + sample * positions_ * channels_, first, length, outside, 0, 0, true, at);
  }

  [[nodiscard]] const std::vector<std::int64_t>& size() const { return size_; }

 private:
  template <typename T>
  void add_lines(T* data, const std::vector<std::int64_t>& first, std::int64_t length, T* outside,
                 std::size_t dimension, std::int64_t position, bool is_inside,
                 std::vector<T*>& at) const {
    for (std::int64_t i = first[dimension]; i < first[dimension] + length; ++i) {
      const auto here = position * size_[dimension] + i;
      const bool inside = is_inside && i >= 0 && i < size_[dimension];
      if (dimension + 1 == size_.size()) {
        at.push_back(inside ? data + here * channels_ : outside);
      } else {
        add_lines(data, first, length, outside, dimension + 1, here, inside, at);
      }
    }
  }

  std::vector<std::int64_t> size_;
  std::int64_t positions_, channels_;
};

// Cuts a convolution's inputs and outputs into tiles, and transforms them to coefficients and back.
// Tiles are numbered sample by sample. Tensors are channels last, of the geometry's type where
// nothing else is said.
class Tiles {
 public:
  Tiles(const ConvolutionGeometry& geometry, Algorithm algorithm);

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] std::int64_t of_sample() const { return of_sample_; }

  // Spreads some channels of some tiles: of inputs or of gradients of outputs.
  void spread(Spread what, const torch::Tensor& from, Range channels, Range tiles,
              Coefficients to) const;
  // Collects outputs, with a bias or null, or adds gradients of inputs to float32 sums.
  void collect(Collect what, Coefficients from, Range channels, Range tiles, const float* bias,
               const torch::Tensor& to) const;

 private:
  // Beginning of a tile. Its memory is used again for the next, as there are many.
  struct Tile {
    std::int64_t sample = 0;
    std::vector<std::int64_t> output, input;

    explicit Tile(int dimensions)
        : output(static_cast<std::size_t>(dimensions)),
          input(static_cast<std::size_t>(dimensions)) {}
  };
  void find(std::int64_t number, Tile& tile) const;

  Algorithm algorithm_;
  Lengths lengths_;
  int dimensions_;
  std::vector<std::int64_t> padding_;
  std::int64_t phases_ = 1;
  Grid input_, output_;
  std::vector<float> zeros_;  // what stands for padding
  std::vector<std::int64_t> along_;
  std::int64_t of_sample_ = 1, count_ = 0;
};

}  // namespace kolo::winograd
