#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/convolution_kernel.h"
#include "kernels/tile_pass.h"
#include "kolo/base/checked.h"

namespace kolo {

namespace {

// Products by the processor's tiles of bfloat16: all taps of 16 positions and 16 channels are added
// up in one tile of sums. Fields are copied to a grid (tile_grid.h), a window at a time where
// one and all weights stay in a second-level cache; weights are rounded and packed as they are
// read, as many taps at a time as stay there.
class TileConvolution final : public ConvolutionKernel {
 public:
  explicit TileConvolution(const ConvolutionGeometry& geometry) : problem_(geometry) {
    forward_.push_back({{}, problem_.large_grid(geometry.batch).tiles({})});
    const auto small = problem_.small_grid();
    for (const Digits& phase : problem_.phases()) backward_.push_back({phase, small.tiles(phase)});
  }

  void forward(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
               const torch::Tensor& output) override {
    const auto weights = by_taps(weight);
    const auto grid = problem_.large_grid(geometry().batch);
    const PassMemory memory{.from = {values_of(input), geometry().inputs, problem_.large_vector()},
                            .chunks = whole_units(problem_.inputs(), tile_depth) / tile_depth,
                            .results = values_of(output),
                            .channels = geometry().outputs,
                            .bias = bias.defined() ? bias.data_ptr<float>() : nullptr};
    compute_results(
        grid, forward_, memory,
        [&](const Digits&, const TileWindow& window) { return problem_.large_taps(grid, window); },
        {memory.chunks, [&](const PackedTap& to, std::int64_t chunk) {
           pack_inputs(weights.data_ptr<float>(), to, chunk);
         }});
  }

  void backward_input(const torch::Tensor& output_gradient, const torch::Tensor& weight,
                      const torch::Tensor& input_gradient) override {
    const auto weights = by_taps(weight);
    const auto grid = problem_.small_grid();
    const auto vector = problem_.small_vector();
    const PassMemory memory{.from = {values_of(output_gradient), geometry().outputs, vector},
                            .chunks = vector / tile_depth,
                            .results = values_of(input_gradient),
                            .channels = geometry().inputs};
    compute_results(
        grid, backward_, memory,
        [&](const Digits& phase, const TileWindow&) { return problem_.small_taps(grid, phase); },
        {memory.columns() / tile_lanes, [&](const PackedTap& to, std::int64_t column) {
           pack_outputs(weights.data_ptr<float>(), to, column);
         }});
  }

  void backward_weight(const torch::Tensor& input, const torch::Tensor& output_gradient,
                       const torch::Tensor& weight_gradient) override {
    const auto gradients = room_by_taps(weight_gradient);
    put_weight_gradients(problem_, values_of(input), values_of(output_gradient),
                         gradients.data_ptr<float>());
    copy_from_taps(gradients, weight_gradient);
  }

 private:
  static BFloat16* values_of(const torch::Tensor& tensor) {
    return static_cast<BFloat16*>(tensor.data_ptr());
  }

  [[nodiscard]] const ConvolutionGeometry& geometry() const { return problem_.geometry(); }

  // Packs a tap's 32 inputs from a multiple of 32 on, for all outputs.
  void pack_inputs(const float* weights, const PackedTap& to, std::int64_t chunk) const {
    const auto outputs = geometry().outputs, columns = whole_units(outputs, tile_lanes);
    const auto rows = std::min(tile_depth, problem_.inputs() - chunk * tile_depth);
    const float* from = weights + (to.tap * problem_.inputs() + chunk * tile_depth) * outputs;
    std::vector<float> room;
    if (rows < tile_depth || columns > outputs) {
      room.resize(static_cast<std::size_t>(tile_depth * columns));
      for (std::int64_t row = 0; row < rows; ++row)
        std::copy_n(from + row * outputs, outputs, room.data() + row * columns);
      from = room.data();
    }
    tile_products::pack(from, columns, columns, to.tiles + chunk * tile_values, to.stride);
  }

  // Packs a tap's 16 inputs from a multiple of 16 on, for all outputs.
  void pack_outputs(const float* weights, const PackedTap& to, std::int64_t column) const {
    const auto inputs = geometry().inputs, outputs = geometry().outputs;
    const auto rows = std::min(tile_lanes, inputs - column * tile_lanes);
    const float* from = weights + (to.tap * inputs + column * tile_lanes) * outputs;
    auto* packed = to.tiles + column * to.stride;
    std::array<float, tile_lanes * tile_depth> room;
    for (std::int64_t first = 0; first < outputs; first += tile_depth, from += tile_depth) {
      const auto values = std::min(tile_depth, outputs - first);
      const bool is_whole = rows == tile_lanes && values == tile_depth;
      if (!is_whole) {
        room.fill(0);
        for (std::int64_t row = 0; row < rows; ++row)
          std::copy_n(from + row * outputs, values, room.data() + row * tile_depth);
      }
      tile_products::pack_transposed(is_whole ? from : room.data(), is_whole ? outputs : tile_depth,
                                     packed);
      packed += tile_values;
    }
  }

  TileProblem problem_;
  std::vector<ResultPhase> forward_, backward_;
};

}  // namespace

std::unique_ptr<ConvolutionKernel> make_tile_convolution(const ConvolutionGeometry& geometry) {
  if (geometry.type != torch::kBFloat16 || !tile_products::are_supported()) return nullptr;
  for (std::size_t i = 0; i < geometry.kernel.size(); ++i)
    if (geometry.padding[i] >= geometry.kernel[i]) return nullptr;
  constexpr std::int64_t most_rows = std::numeric_limits<std::int32_t>::max();  // TileRows::results
  for (const auto& size : {geometry.size, geometry.output_size()})
    if (checked_multiply(geometry.batch, checked_product<std::int64_t>(size)) > most_rows)
      return nullptr;
  return std::make_unique<TileConvolution>(geometry);
}

}  // namespace kolo
