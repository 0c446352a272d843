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
  count_ = lengths.products * phases;
  rest_ = {0};
  for (int dimension = dimensions - 1; dimension >= 0; --dimension) {
    std::vector<std::int64_t> along;
    for (std::int64_t i = 0; i < count_; ++i)
      along.push_back(i / phases * product + i % phases * phase);
    if (dimension == 0) {
      first_ = std::move(along);
      break;
    }
    std::vector<std::int64_t> both;
    for (const auto outer : along)
      for (const auto inner : rest_) both.push_back(outer + inner);
    rest_ = std::move(both);
    product *= lengths.products;
    phase *= phases;
  }
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
      outputs_(geometry.outputs),
      input_(geometry.size, geometry.inputs),
      output_(geometry.output_size(), geometry.outputs),
      zeros_(static_cast<std::size_t>(std::max(geometry.inputs, geometry.outputs))) {
  for (const auto length : output_.size()) {
    along_.push_back((length + lengths_.outputs - 1) / lengths_.outputs);
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

template <typename T, typename BoxOf>
void Tiles::spread_boxes(Spread what, const T* values, std::int64_t channels, std::int64_t phases,
                         Range tiles, Coefficients to, const BoxOf& box_of) const {
  const auto row = phases * channels;
  const Offsets offsets(algorithm_, dimensions_, phases > 1, to.product, channels);
  std::vector<const T*> at;
  for (std::int64_t i = 0; i < tiles.count; ++i) {
    box_of(values, tiles.first + i, at);
    vector_loops().of<T>().spread(algorithm_, what, at.data(), channels, offsets,
                                  to.data + i * row);
  }
}

void Tiles::spread_inputs(const torch::Tensor& input, Range channels, Range tiles,
                          Coefficients to) const {
  Tile tile(dimensions_);
  with_values(input, [&]<typename T>() {
    spread_boxes(Spread::inputs, values_of<const T>(input) + channels.first, channels.count,
                 phases_, tiles, to,
                 [&](const T* from, std::int64_t number, std::vector<const T*>& at) {
                   find(number, tile);
                   input_.box(from, tile.sample, tile.input, lengths_.window, as<T>(zeros_), at);
                 });
  });
}

void Tiles::spread_output_gradients(const torch::Tensor& gradient, Range tiles,
                                    Coefficients to) const {
  Tile tile(dimensions_);
  with_values(gradient, [&]<typename T>() {
    spread_boxes(Spread::output_gradients, values_of<const T>(gradient), outputs_, 1, tiles, to,
                 [&](const T* from, std::int64_t number, std::vector<const T*>& at) {
                   find(number, tile);
                   output_.box(from, tile.sample, tile.output, lengths_.outputs, as<T>(zeros_), at);
                 });
  });
}

void Tiles::collect_outputs(Coefficients from, Range channels, Range tiles, const float* bias,
                            const torch::Tensor& output) const {
  const Offsets offsets(algorithm_, dimensions_, false, from.product, 0);
  const float* const added = bias == nullptr ? nullptr : bias + channels.first;
  Tile tile(dimensions_);
  with_values(output, [&]<typename T>() {
    T* const values = values_of<T>(output);
    std::vector<T*> at;
    for (std::int64_t i = 0; i < tiles.count; ++i) {
      find(tiles.first + i, tile);
      output_.box<T>(values + channels.first, tile.sample, tile.output, lengths_.outputs, nullptr,
                     at);
      vector_loops().of<T>().collect(algorithm_, Collect::outputs, from.data + i * channels.count,
                                     offsets, channels.count, added, at.data());
    }
  });
}

void Tiles::collect_input_gradients(Coefficients from, Range channels, Range tiles,
                                    const torch::Tensor& sums) const {
  const auto row = phases_ * channels.count;
  const Offsets offsets(algorithm_, dimensions_, true, from.product, channels.count);
  std::vector<float*> at;
  Tile tile(dimensions_);
  for (std::int64_t i = 0; i < tiles.count; ++i) {
    find(tiles.first + i, tile);
    input_.box<float>(sums.data_ptr<float>() + channels.first, tile.sample, tile.input,
                      lengths_.window, nullptr, at);
    vector_loops().of_float.collect(algorithm_, Collect::input_gradients, from.data + i * row,
                                    offsets, channels.count, nullptr, at.data());
  }
}

}  // namespace kolo::winograd
