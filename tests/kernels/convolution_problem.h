#pragma once

// Random convolutions for every kernel, with LibTorch's in float64 beside them.
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "compare.h"
#include "kernels/convolution_kernel.h"
#include "kolo/base/gradient_destination.h"
#include "kolo/kernels/convolution.h"

namespace kolo {

using torch::Tensor;

struct Values {
  Tensor output, of_input, of_weight, of_bias;
};

// Room for a result like a tensor, filled with NaN, in a frame of ones that must stay.
struct Framed {
  static constexpr std::int64_t margin = 4096;

  Tensor memory, tensor;

  explicit Framed(const Tensor& like) {
    memory = torch::full({like.numel() + 2 * margin}, NAN, like.options());
    memory.narrow(0, 0, margin).fill_(1);
    memory.narrow(0, margin + like.numel(), margin).fill_(1);
    tensor = memory.as_strided(like.sizes(), like.strides(), margin);
  }

  [[nodiscard]] bool is_whole() const {
    const auto ones = torch::ones({margin}, tensor.options());
    return memory.narrow(0, 0, margin).equal(ones) &&
           memory.narrow(0, margin + tensor.numel(), margin).equal(ones);
  }
};

// "32 x 64x16x16 to 64, 3x3, stride 1x1, padding 1x1, Float"
inline std::string text_of(const ConvolutionGeometry& geometry) {
  return fmt::format("{} x {}x{} to {}, {}, stride {}, padding {}{}, {}", geometry.batch,
                     geometry.inputs, fmt::join(geometry.size, "x"), geometry.outputs,
                     fmt::join(geometry.kernel, "x"), fmt::join(geometry.stride, "x"),
                     fmt::join(geometry.padding, "x"),
                     geometry.has_taps_first ? ", taps first" : "", c10::toString(geometry.type));
}

// Inputs, weights and gradients for a geometry, and LibTorch's results.
struct Problem {
  ConvolutionGeometry geometry;
  Tensor input, weight, bias, gradient;  // float64

  explicit Problem(ConvolutionGeometry of) : geometry(std::move(of)) {
    input = random(lengths(geometry.batch, geometry.inputs, geometry.size));
    weight = random(lengths(geometry.outputs, geometry.inputs, geometry.kernel));
    if (geometry.bias) bias = torch::randn({geometry.outputs}, torch::kDouble);
    gradient = random(lengths(geometry.batch, geometry.outputs, geometry.output_size()));
  }

  // Values that the geometry's type has.
  [[nodiscard]] Tensor random(const std::vector<std::int64_t>& shape) const {
    return torch::randn(shape).to(geometry.type).to(torch::kDouble);
  }

  static std::vector<std::int64_t> lengths(std::int64_t first, std::int64_t second,
                                           const std::vector<std::int64_t>& rest) {
    std::vector<std::int64_t> all = {first, second};
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
  }

  [[nodiscard]] Values reference() const {
    const auto x = input.clone().requires_grad_(), w = weight.clone().requires_grad_();
    const auto b = bias.defined() ? bias.clone().requires_grad_() : Tensor();
    const std::vector<std::int64_t> one(geometry.size.size(), 1), zero(geometry.size.size(), 0);
    const auto y =
        geometry.size.empty()
            ? torch::linear(x, w, b)
            : torch::convolution(x, w, b, geometry.stride, geometry.padding, one, false, zero, 1);
    y.backward(gradient);
    return {y.detach(), x.grad(), w.grad(), b.defined() ? b.grad() : Tensor()};
  }

  [[nodiscard]] Values by(ConvolutionKernel& kernel) const {
    // [N, C, ...] in the kernel's order, and back: a kernel knows only memory.
    const int moved = kernel.order() == MemoryOrder::channels_last ? 1 : 0;
    const auto in_order = [&](const Tensor& tensor) {
      return tensor.movedim(moved, -1).contiguous().to(geometry.type);
    };
    const auto back = [&](const Tensor& tensor) { return tensor.movedim(-1, moved); };
    const auto x = in_order(input), g = in_order(gradient);
    const auto single = weight.to(torch::kFloat);
    const auto w = geometry.has_taps_first ? taps_first(single) : single;
    const auto b = bias.defined() ? bias.to(torch::kFloat) : Tensor();
    const Framed y(g), of_x(x), of_w(w);
    kernel.forward(x, w, b, y.tensor);
    kernel.backward_input(g, w, of_x.tensor);
    kernel.backward_weight(x, g, of_w.tensor);
    for (const auto* each : {&y, &of_x, &of_w})
      EXPECT_TRUE(each->is_whole()) << "written outside of a result of " << each->tensor.sizes();
    return {back(y.tensor), back(of_x.tensor), of_w.tensor,
            b.defined() ? sum_by_channel(back(g), kernel.order()) : Tensor()};
  }
};

// A layer in float32 and torch's own in float64, which is the same to 1e-5.
template <typename Layer, typename Plain, typename Options>
struct Layers {
  Layer ours;
  Plain plain;

  explicit Layers(const Options& options, bool by_taps = false) : ours(options), plain(options) {
    plain->to(torch::kDouble);
    if (by_taps) keep_taps_first(ours->weight);
    const torch::NoGradGuard no_gradient;
    for (const auto& item : plain->named_parameters())
      item.value().copy_(ours->named_parameters()[item.key()]);
  }

  void expect_alike(const Tensor& given) {
    const auto x = given.detach().clone().requires_grad_();
    const auto x_plain = given.detach().to(torch::kDouble).requires_grad_();
    ours->zero_grad();
    plain->zero_grad();
    const auto y = ours(x), y_plain = plain(x_plain);
    expect_close(y.detach(), y_plain.detach(), "output");
    if (y.numel() == 0) return;
    const auto slope = torch::randn(y.sizes());
    y.backward(slope);
    y_plain.backward(slope.to(torch::kDouble));
    expect_close(x.grad(), x_plain.grad(), "gradient of the input");
    for (const auto& item : plain->named_parameters())
      expect_close(ours->named_parameters()[item.key()].grad(), item.value().grad(), item.key());
    EXPECT_EQ(ours->weight.grad().strides(), ours->weight.strides());
  }
};

// Memory where a parameter's gradient is wanted, while it lives and until the parameter ends.
class Destination {
 public:
  explicit Destination(const Tensor& parameter)
      : accumulator_(torch::autograd::impl::grad_accumulator(parameter)),
        memory_(torch::empty_like(parameter.detach())) {
    accumulator_->add_post_hook(std::make_unique<Hook>(memory_));
  }

  [[nodiscard]] const Tensor& memory() const { return memory_; }

 private:
  class Hook final : public torch::autograd::FunctionPostHook, public GradientDestination {
   public:
    explicit Hook(Tensor memory) : memory_(std::move(memory)) {}

    torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                              const torch::autograd::variable_list&) override {
      return outputs;
    }
    std::shared_ptr<void> take() override {
      return {std::make_shared<Tensor>(memory_), memory_.data_ptr()};
    }

   private:
    Tensor memory_;
  };

  std::shared_ptr<torch::autograd::Node> accumulator_;
  Tensor memory_;
};

inline ConvolutionGeometry random_geometry(std::mt19937& random, std::size_t dimensions) {
  const auto up_to = [&](std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution<std::int64_t>(first, last)(random);
  };
  ConvolutionGeometry geometry{.batch = up_to(1, 9),
                               .inputs = up_to(1, 40),
                               .outputs = up_to(1, 40),
                               .bias = up_to(0, 1) == 1,
                               .has_taps_first = up_to(0, 1) == 1};
  for (std::size_t i = 0; i < dimensions; ++i) {
    geometry.kernel.push_back(up_to(1, 4));
    geometry.stride.push_back(up_to(1, 3));
    geometry.padding.push_back(up_to(0, geometry.kernel.back() - 1));
    const auto least = std::max<std::int64_t>(1, geometry.kernel.back() - 2 * geometry.padding[i]);
    geometry.size.push_back(up_to(least, least + (dimensions == 3 ? 3 : 7)));
  }
  return geometry;
}

struct KernelCase {
  const char* name;
  std::unique_ptr<ConvolutionKernel> (*make)(const ConvolutionGeometry&);
  torch::ScalarType type = torch::kFloat;
  void (*suit)(ConvolutionGeometry&) = [](ConvolutionGeometry&) {};
  bool rounds = false;  // also what is multiplied, not only results

  // A random one that suits it.
  [[nodiscard]] ConvolutionGeometry geometry(std::mt19937& random, std::size_t dimensions) const {
    auto geometry = random_geometry(random, dimensions);
    geometry.type = type;
    suit(geometry);
    return geometry;
  }
};

// Channels that fill vectors, in whole blocks or not, and weights with the taps first: kolo packs
// these itself.
inline void suit_packing(ConvolutionGeometry& geometry) {
  geometry.inputs = 16 * (1 + geometry.inputs % 9);
  geometry.outputs = 16 * (1 + geometry.outputs % 19);
  geometry.has_taps_first = true;
}

// Strides of 2 and 3 over kernels of 1 to 4, some of which oneDNN's tiles get wrong.
inline void suit_far_strides(ConvolutionGeometry& geometry) {
  suit_packing(geometry);
  for (auto& stride : geometry.stride) stride = 2 + stride % 2;
}

inline void suit_taps(ConvolutionGeometry& geometry) {
  geometry.inputs = 32 * (1 + geometry.inputs % 5);
  geometry.outputs = 32 * (1 + geometry.outputs % 5);
}

// Lengths up to 33, and channels that leave tiles partly empty.
inline void suit_tiles(ConvolutionGeometry& geometry) {
  geometry.batch = 1 + geometry.batch % 5;
  geometry.inputs = 3 * geometry.inputs;
  geometry.outputs = 2 * geometry.outputs + 1;
  auto& last = geometry.size.back();
  last = std::min<std::int64_t>(33, last * (1 + geometry.inputs % 4));
}

inline void suit_columns(ConvolutionGeometry& geometry) {
  geometry.inputs = 16 * (1 + geometry.inputs % 2);
  geometry.outputs += geometry.outputs % 2;
}

// Either of the two kernels that there are minimal algorithms for.
inline void suit_winograd(ConvolutionGeometry& geometry) {
  const auto stride = 1 + geometry.stride[0] % 2;
  geometry.inputs = 16 * (1 + geometry.inputs % 6);
  // Enough channels for taps to be made in several parts, sometimes.
  geometry.outputs = 16 * (1 + 3 * geometry.outputs % 13);
  for (std::size_t i = 0; i < geometry.size.size(); ++i) {
    geometry.stride[i] = stride;
    geometry.kernel[i] = 2 + stride;
    geometry.size[i] = std::max(geometry.size[i], geometry.kernel[i] - 2 * geometry.padding[i]);
  }
}

// Kernels of one value with strides that the inputs' lengths are multiples of, over few channels:
// oneDNN 2.6 writes outside of its own memory for some.
inline void suit_strided_points(ConvolutionGeometry& geometry) {
  geometry.inputs = 1 + geometry.inputs % 20;
  for (std::size_t i = 0; i < geometry.size.size(); ++i) {
    geometry.kernel[i] = 1;
    geometry.padding[i] = 0;
    geometry.size[i] = (1 + geometry.size[i]) * geometry.stride[i];
  }
}

// Numbers of positions and channels at which oneDNN goes wrong.
inline void suit_odd_points(ConvolutionGeometry& geometry) {
  geometry.outputs |= 1;
  for (std::size_t i = 0; i < geometry.size.size(); ++i) {
    geometry.kernel[i] = geometry.stride[i] = 1;
    geometry.padding[i] = 0;
  }
  geometry.size.front() = 30;
}

// Geometries that it knows, with batches that fill its vectors from one to five.
inline void suit_image_lanes(ConvolutionGeometry& geometry) {
  geometry.batch = 16 * (1 + geometry.batch % 5);
  geometry.has_taps_first = false;
  for (std::size_t i = 0; i < geometry.size.size(); ++i) {
    geometry.stride[i] = 1;
    geometry.padding[i] = 0;
    geometry.kernel[i] += 2 * static_cast<std::int64_t>(i);
    geometry.size[i] += geometry.kernel[i] - 1;
  }
}

// Rounding the weights and the results to bfloat16 changes 2.3e-3, by root mean squares; no kernel
// may come to more than twice that.
inline void expect_nearly_ideal(const Tensor& value, const Tensor& reference, const char* what) {
  ASSERT_EQ(value.sizes(), reference.sizes()) << what;
  const double error = (value.to(torch::kDouble) - reference).norm().item<double>();
  EXPECT_LT(error, 4.6e-3 * (1e-3 + reference.norm().item<double>())) << what;
}

// Kernels for images, volumes and lines, where there are such.
inline std::vector<KernelCase> kernel_cases() {
  constexpr auto float32 = torch::kFloat, bfloat16 = torch::kBFloat16;
  return {{"direct", make_direct_convolution},
          {"by_tap", make_tap_convolution},
          {"by_tap_in_blocks", make_tap_convolution, float32, suit_packing},
          {"usual_strided_points", make_convolution_kernel, float32, suit_strided_points},
          {"direct_bfloat16", make_direct_convolution, bfloat16},
          {"direct_bfloat16_packed", make_direct_convolution, bfloat16, suit_packing},
          {"usual_bfloat16_far_strides", make_convolution_kernel, bfloat16, suit_far_strides, true},
          {"usual_bfloat16_odd_points", make_convolution_kernel, bfloat16, suit_odd_points, true},
          {"usual_bfloat16_strided_points", make_convolution_kernel, bfloat16, suit_strided_points,
           true},
          {"by_tap_bfloat16", make_bfloat16_tap_convolution, bfloat16, suit_taps},
          {"tiles", make_tile_convolution, bfloat16, suit_tiles, true},
          {"tiles_far", make_tile_convolution, bfloat16},
          {"by_columns", make_column_convolution},
          {"by_columns_bfloat16", make_column_convolution, bfloat16, suit_columns},
          {"winograd", make_winograd_convolution, float32, suit_winograd},
          {"winograd_bfloat16", make_winograd_convolution, bfloat16, suit_winograd},
          {"image_lanes", make_image_lane_convolution, float32, suit_image_lanes}};
}

class ConvolutionKernelTest
    : public testing::TestWithParam<std::tuple<KernelCase, std::size_t, int>> {
 protected:
  ConvolutionKernelTest() { torch::manual_seed(1); }

 private:
  Threads threads_{std::get<2>(GetParam())};
};

inline std::string case_name(const testing::TestParamInfo<ConvolutionKernelTest::ParamType>& each) {
  const auto& [kernel_case, dimensions, threads] = each.param;
  return fmt::format("{}_{}d_{}_threads", kernel_case.name, dimensions, threads);
}

}  // namespace kolo
