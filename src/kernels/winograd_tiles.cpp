#include "kernels/winograd_tiles.h"

#include <algorithm>
#include <utility>

#include "kernels/channel_sums.h"
#include "kernels/vector_loops.h"
#include "kolo/base/checked.h"

namespace kolo::winograd {

Lengths lengths_of(Algorithm algorithm) {
  if (algorithm == Algorithm::four_of_three_taps)
    return {.taps = 3, .stride = 1, .outputs = 4, .window = 6, .products = 6};
  return {.taps = 4, .stride = 2, .outputs = 2, .window = 6, .products = 3};
}

Offsets::Offsets(Algorithm algorithm, int dimensions, bool has_phases, std::int64_t product,
                 std::int64_t phase)
    : dimensions_(dimensions) {
  const auto lengths = lengths_of(algorithm);
  const auto phases = has_phases ? lengths.stride : 1;
  // Offsets along the next dimension; called for the last one first.
  const auto along = [&] {
    std::vector<std::int64_t> offsets;
    for (std::int64_t i = 0; i < lengths.products * phases; ++i)
      offsets.push_back(i / phases * product + i % phases * phase);
    product *= lengths.products;
    phase *= phases;
    return offsets;
  };
  rest_ = {0};
  for (int dimension = dimensions - 1; dimension > 0; --dimension) {
    std::vector<std::int64_t> both;
    for (const auto outer : along())
      for (const auto inner : rest_) both.push_back(outer + inner);
    rest_ = std::move(both);
  }
  first_ = along();
}

namespace {

template <typename T>
const T* as(const std::vector<float>& zeros) {
  return static_cast<const T*>(static_cast<const void*>(zeros.data()));
}

}  // namespace

Grid::Grid(std::vector<std::int64_t> size, std::int64_t channels)
    : size_(std::move(size)),
      positions_(checked_product<std::int64_t>(size_)),
      channels_(channels) {}

Tiles::Tiles(const ConvolutionGeometry& geometry, Algorithm algorithm)
    : algorithm_(algorithm),
      lengths_(lengths_of(algorithm)),
      dimensions_(narrow<int>(geometry.size.size())),
      padding_(geometry.padding),
      input_(geometry.size, geometry.inputs),
      output_(geometry.output_size(), geometry.outputs),
      zeros_(static_cast<std::size_t>(std::max(geometry.inputs, geometry.outputs))) {
  for (const auto length : output_.size()) {
    along_.push_back(divide_up(length, lengths_.outputs));
    phases_ *= lengths_.stride;
  }
  of_sample_ = checked_product<std::int64_t>(along_);
  count_ = checked_multiply(geometry.batch, of_sample_);
}

void Tiles::find(std::int64_t number, Tile& tile) const {
  for (std::size_t i = along_.size(); i-- > 0; number /= along_[i]) {
    tile.output[i] = number % along_[i] * lengths_.outputs;
    tile.input[i] = tile.output[i] * lengths_.stride - padding_[i];
  }
  tile.sample = number;
}

void Tiles::spread(Spread what, const torch::Tensor& from, Range channels, Range tiles,
                   Coefficients to) const {
  const bool is_input = what == Spread::inputs;
  const auto row = (is_input ? phases_ : 1) * channels.count;
  const Offsets offsets(algorithm_, dimensions_, is_input, to.product, channels.count);
  const Grid& grid = is_input ? input_ : output_;
  Tile tile(dimensions_);
  const auto& first = is_input ? tile.input : tile.output;
  const auto length = is_input ? lengths_.window : lengths_.outputs;
  with_values(from, [&]<typename T>() {
    std::vector<const T*> at;
    for (std::int64_t i = 0; i < tiles.count; ++i) {
      find(tiles.first + i, tile);
      grid.box(values_of<const T>(from) + channels.first, tile.sample, first, length, as<T>(zeros_),
               at);
      vector_loops().of<T>().spread(algorithm_, what, at.data(), channels.count, offsets,
                                    to.data + i * row);
    }
  });
}

void Tiles::collect(Collect what, Coefficients from, Range channels, Range tiles, const float* bias,
                    const torch::Tensor& to) const {
  const bool is_output = what == Collect::outputs;
  const auto row = (is_output ? 1 : phases_) * channels.count;
  const Offsets offsets(algorithm_, dimensions_, !is_output, from.product, channels.count);
  const float* const added = bias == nullptr ? nullptr : bias + channels.first;
  const Grid& grid = is_output ? output_ : input_;
  Tile tile(dimensions_);
  const auto& first = is_output ? tile.output : tile.input;
  const auto length = is_output ? lengths_.outputs : lengths_.window;
  with_values(to, [&]<typename T>() {
    std::vector<T*> at;
    for (std::int64_t i = 0; i < tiles.count; ++i) {
      find(tiles.first + i, tile);
      grid.box<T>(values_of<T>(to) + channels.first, tile.sample, first, length, nullptr, at);
      vector_loops().of<T>().collect(algorithm_, what, from.data + i * row, offsets, channels.count,
                                     added, at.data());
    }
  });
}

}  // namespace kolo::winograd
