#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/conv.h>

#include "kernels/convolution_kernel.h"
#include "kolo/base/error.h"
#include "kolo/kernels/convolution.h"
#include "nn/models/building_blocks.h"

namespace kolo::networks {

namespace {

constexpr std::int64_t kernel_size = 4, stride = 2, padding = 1;  // halves the size, or doubles it

// Channels that a level's convolution makes; levels count from 1.
std::int64_t channels_at(std::int64_t level, std::int64_t first) {
  constexpr std::int64_t most_doublings = 3;
  return first << std::min(level - 1, most_doublings);
}

void initialize(torch::Tensor& weight, torch::Tensor& bias) {
  const torch::NoGradGuard no_gradient;
  weight.normal_(0, .02);
  bias.zero_();
}

// A stage's payload has the outputs that the way up will join, the smallest last, which the next
// stage works on. On the way up a stage's output is joined with the next smallest.
class UNet3dNetwork final : public ChainNetwork {
 public:
  UNet3dNetwork(const ModelOptions& options, std::int64_t levels, std::int64_t channels) {
    const auto& shape = options.input_shape;
    std::int64_t voxels = shape[1] * shape[2] * shape[3];
    std::int64_t inputs = shape[0];
    for (std::int64_t level = 1; level <= levels; ++level) {
      const auto outputs = channels_at(level, channels);
      voxels /= stride * stride * stride;
      add_down(level, inputs, outputs, voxels);
      inputs = outputs;
    }
    for (std::int64_t level = levels; level >= 1; --level) {
      const bool is_deepest = level == levels;
      const auto made = channels_at(level, channels);
      const auto outputs = level == 1 ? options.output_shape[0] : channels_at(level - 1, channels);
      add_up(level, {is_deepest, level == 1}, is_deepest ? made : 2 * made, outputs, voxels);
      voxels *= stride * stride * stride;
    }
  }

  [[nodiscard]] std::vector<FieldLayer> field_layers() const override {
    std::vector<FieldLayer> layers;
    const auto add = [&](std::string name, const auto& options, bool is_transposed,
                         std::optional<std::size_t> mirrors) {
      const AxisLayer axis{.kernel = kernel_size,
                           .stride = stride,
                           .padding = padding,
                           .is_transposed = is_transposed};
      layers.push_back({.name = std::move(name),
                        .axes = {axis, axis, axis},
                        .inputs = options.in_channels(),
                        .outputs = options.out_channels(),
                        .mirrors = mirrors,
                        // Backward keeps what is concatenated.
                        .keeps_output = !is_transposed || mirrors == 0});
    };
    for (std::size_t i = 0; i < down_.size(); ++i)
      add(fmt::format("down{}", i + 1), down_[i]->options, false, std::nullopt);
    for (std::size_t i = down_.size(); i-- > 0;)
      add(fmt::format("up{}", i + 1), up_[down_.size() - 1 - i]->options, true, i);
    return layers;
  }

  void share_samples(std::shared_ptr<const Partition> partition) override {
    std::size_t index = 0;
    const auto share = [&](auto& layer) {
      layer->share_samples(partition ? partition->layer(index) : nullptr);
      ++index;
    };
    for (auto& layer : down_) share(layer);
    for (auto& layer : up_) share(layer);
  }

 private:
  struct OnWayUp {
    bool is_first = false;  // with nothing to join
    bool is_last = false;   // its output is the network's
  };

  void add_down(std::int64_t level, std::int64_t inputs, std::int64_t outputs,
                std::int64_t voxels) {
    const auto name = fmt::format("down{}", level);
    auto convolution = add(
        name,
        Convolution3d(
            torch::nn::Conv3dOptions(inputs, outputs, kernel_size).stride(stride).padding(padding)),
        voxels);
    down_.push_back(convolution);
    const bool is_first = level == 1;
    add_stage(
        {name, {{name, convolution.ptr()}}, [convolution, is_first](StagePayload shared) mutable {
           constexpr double slope = .01;
           torch::Tensor x = convolution(shared.back());
           torch::leaky_relu_(x, slope);
           if (is_first) shared.clear();  // nobody else takes the input
           shared.push_back(std::move(x));
           return shared;
         }});
  }

  void add_up(std::int64_t level, OnWayUp way, std::int64_t inputs, std::int64_t outputs,
              std::int64_t voxels) {
    const auto name = fmt::format("up{}", level);
    auto convolution =
        add(name,
            ConvolutionTranspose3d(torch::nn::ConvTranspose3dOptions(inputs, outputs, kernel_size)
                                       .stride(stride)
                                       .padding(padding)),
            voxels);
    up_.push_back(convolution);
    add_stage({name, {{name, convolution.ptr()}}, [convolution, way](StagePayload shared) mutable {
                 torch::Tensor x = std::move(shared.back());
                 if (!way.is_first) {
                   shared.pop_back();
                   x = torch::cat({x.relu_(), shared.back()}, 1);
                 }
                 x = convolution(x);
                 shared.back() = way.is_last ? x.tanh_() : std::move(x);
                 return shared;
               }});
  }

  // `voxels`: of the layer's smaller side.
  template <typename Layer>
  Layer add(const std::string& name, Layer layer, std::int64_t voxels) {
    initialize(layer->weight, layer->bias);
    if (has_few_voxels(voxels, layer->weight.size(0), layer->weight.size(1)))
      keep_taps_first(layer->weight);
    return register_module(name, layer);
  }

  std::vector<Convolution3d> down_;         // by level, from 1
  std::vector<ConvolutionTranspose3d> up_;  // from the last level to 1
};

void require_fields(const ModelOptions& options) {
  const auto &input = options.input_shape, &output = options.output_shape;
  if (input.size() == 4 && output.size() == 4 &&
      std::equal(input.begin() + 1, input.end(), output.begin() + 1))
    return;
  throw InputError(
      fmt::format("model unet3d: the input is [{}] and the output [{}], expected both to be fields "
                  "of channels, depth, height and width, with the same lengths",
                  fmt::join(input, ", "), fmt::join(output, ", ")));
}

void require_divisible(const std::vector<std::int64_t>& shape, std::int64_t levels) {
  for (std::size_t i = 1; i < shape.size(); ++i) {
    if (shape[i] % (std::int64_t{1} << levels) == 0) continue;
    const std::int64_t fitting = std::countr_zero(static_cast<std::uint64_t>(shape[i]));
    throw InputError(fmt::format(
        "model unet3d: {} levels halve an input of [{}] {} times, but {} can be halved {} times; "
        "set model.levels to {} or less, or make the input a multiple of {}",
        levels, fmt::join(shape, ", "), levels, shape[i], fitting,
        std::max<std::int64_t>(1, fitting), std::int64_t{1} << levels));
  }
}

}  // namespace

// The 3-D U-Net of the NERSC tutorial (networks/UNet.py), after Harrington et al.,
// arXiv:2106.12662: `levels` convolutions of 4x4x4 and stride 2 with LeakyReLU (.01) make
// `channels`, twice, four times and from there on eight times as many channels of half the size
// each; as many transposed ones with ReLU lead back, each but the first also taking the output of
// the other side's convolution of its size. The last makes the output's channels and has a tanh.
// Weights are normal(0, .02), biases zero. 117.0 million parameters for 4 channels in and 5 out.
//
// Input [N, inputs, D, H, W], output [N, outputs, D, H, W], in channels-last memory; D, H and W
// multiples of 2^levels.
struct UNet3d {
  // How often the size is halved, as a number or as 6 (true) or 5 (false), not both; unset: 6.
  std::optional<bool> full_scale;
  std::optional<std::int64_t> levels;
  std::optional<std::int64_t> channels;  // after the first level

  void check(const RefuseKey& refuse) const {
    if (full_scale && levels)
      refuse("levels", "full_scale stands for 6 or 5 levels; give one of the two");
  }
  void complete() {
    if (!full_scale && !levels) levels = 6;
    channels = channels.value_or(64);
  }
  [[nodiscard]] std::shared_ptr<Network> make(const ModelOptions& shapes) const {
    const auto count = full_scale ? (*full_scale ? 6 : 5) : levels.value();
    require_fields(shapes);
    require_divisible(shapes.input_shape, count);
    return std::make_shared<UNet3dNetwork>(shapes, count, channels.value());
  }
};

template <typename Field>
void visit(Field& field, UNet3d& model) {
  constexpr long double most_levels = 12, most_channels = 4096;
  field("full_scale", model.full_scale, AnyBool{}, Unset{"as levels has it"});
  field("levels", model.levels, positive.up_to(most_levels), Unset{"6, or 5 if not full_scale"});
  field("channels", model.channels, positive.up_to(most_channels));
}

ModelEntry unet3d() {
  auto entry = entry_of<UNet3d>("unet3d",
                                "3-D U-Net of 6 levels, 64 to 512 channels; 117.0 million "
                                "parameters on cosmology boxes");
  entry.output = ModelOutput::numbers;
  return entry;
}

}  // namespace kolo::networks
