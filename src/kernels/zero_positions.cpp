#include "kernels/zero_products.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/Parallel.h>

#include "kolo/base/checked.h"

namespace kolo {

namespace {

using Flags = std::vector<std::uint8_t>;

// Looks at values of float32 or bfloat16 as bits, of which the sign doesn't count.
template <typename Bits>
bool is_any(const Bits* values, std::int64_t count) {
  constexpr auto without_sign = static_cast<Bits>(~(Bits{1} << (8 * sizeof(Bits) - 1)));
  constexpr std::int64_t at_once = 16;  // most positions have something among the first ones
  for (std::int64_t first = 0; first < count; first += at_once) {
    Bits any = 0;
    for (std::int64_t i = 0; i < at_once; ++i) any |= values[first + i];
    if ((any & without_sign) != 0) return true;
  }
  return false;
}

// Tells for each position of all samples whether one of the channels is not 0.
template <typename Bits>
Flags find_flags(const torch::Tensor& tensor, std::int64_t channels) {
  constexpr std::int64_t least_of_thread = 1024;
  Flags flags(static_cast<std::size_t>(tensor.numel() / channels));
  const auto* const values = static_cast<const Bits*>(tensor.data_ptr());
  at::parallel_for(0, narrow<std::int64_t>(flags.size()), least_of_thread,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (auto i = begin; i < end; ++i) {
                       flags[static_cast<std::size_t>(i)] =
                           is_any(values + i * channels, channels) ? 1 : 0;
                     }
                   });
  return flags;
}

Flags flags_of(const torch::Tensor& tensor, std::int64_t channels) {
  return tensor.scalar_type() == torch::kFloat ? find_flags<std::uint32_t>(tensor, channels)
                                               : find_flags<std::uint16_t>(tensor, channels);
}

// The positions that taps connect each position of a result with, along one dimension: from `first`
// to `end`.
struct Along {
  struct Window {
    std::int64_t first = 0, end = 1;
  };
  std::vector<Window> windows = {{}};
  std::int64_t from_length = 1;

  [[nodiscard]] std::int64_t to_length() const { return narrow<std::int64_t>(windows.size()); }
};

// Three dimensions; those that there are not come first.
using Windows = std::array<Along, 3>;

// Windows of outputs, or of gradients of inputs.
Windows windows_of(const ConvolutionGeometry& geometry, bool of_outputs) {
  Windows windows;
  const auto output_size = geometry.output_size();
  for (std::size_t i = 0; i < geometry.size.size(); ++i) {
    const auto stride = geometry.stride[i], padding = geometry.padding[i],
               kernel = geometry.kernel[i];
    auto& along = windows[windows.size() - geometry.size.size() + i];
    along.from_length = of_outputs ? geometry.size[i] : output_size[i];
    along.windows.clear();
    for (std::int64_t to = 0; to < (of_outputs ? output_size[i] : geometry.size[i]); ++to) {
      // Outputs meet the inputs from o * stride - padding on; turned round, rounded up and down.
      const auto first =
          of_outputs ? to * stride - padding
                     : (std::max<std::int64_t>(to + padding - kernel + 1, 0) + stride - 1) / stride;
      const auto end = of_outputs ? first + kernel : (to + padding) / stride + 1;
      along.windows.push_back({std::max<std::int64_t>(first, 0), std::min(end, along.from_length)});
    }
  }
  return windows;
}

bool is_reached(const std::uint8_t* flags, const Windows& windows, std::int64_t z, std::int64_t y,
                std::int64_t x) {
  const auto& in_z = windows[0].windows[static_cast<std::size_t>(z)];
  const auto& in_y = windows[1].windows[static_cast<std::size_t>(y)];
  const auto& in_x = windows[2].windows[static_cast<std::size_t>(x)];
  for (auto i = in_z.first; i < in_z.end; ++i) {
    for (auto j = in_y.first; j < in_y.end; ++j) {
      const auto* const line = flags + (i * windows[1].from_length + j) * windows[2].from_length;
      for (auto k = in_x.first; k < in_x.end; ++k)
        if (line[k] != 0) return true;
    }
  }
  return false;
}

// Calls set(values) with the vectors of `result` that no position with a flag is connected with.
template <typename Value, typename Set>
void set_unreached(const ConvolutionGeometry& geometry, const Windows& windows, const Flags& flags,
                   const torch::Tensor& result, std::int64_t channels, const Set& set) {
  const bool are_all_reached = std::all_of(windows.begin(), windows.end(), [](const Along& along) {
    return std::all_of(along.windows.begin(), along.windows.end(),
                       [](const Along::Window& window) { return window.first < window.end; });
  });
  if (are_all_reached && std::find(flags.begin(), flags.end(), 0) == flags.end()) return;
  const auto positions_from = narrow<std::int64_t>(flags.size()) / geometry.batch;
  const auto planes = windows[0].to_length(), rows = windows[1].to_length(),
             length = windows[2].to_length();
  auto* const values = static_cast<Value*>(result.data_ptr());
  at::parallel_for(0, geometry.batch * planes, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto plane = begin; plane < end; ++plane) {
      const auto* const mine = flags.data() + plane / planes * positions_from;
      for (std::int64_t y = 0; y < rows; ++y) {
        for (std::int64_t x = 0; x < length; ++x) {
          if (!is_reached(mine, windows, plane % planes, y, x))
            set(values + ((plane * rows + y) * length + x) * channels);
        }
      }
    }
  });
}

template <typename Value>
void restore_outputs(const ConvolutionGeometry& geometry, const Flags& flags, const float* bias,
                     const torch::Tensor& output) {
  set_unreached<Value>(geometry, windows_of(geometry, true), flags, output, geometry.outputs,
                       [&](Value* values) {
                         for (std::int64_t i = 0; i < geometry.outputs; ++i) {
                           if (std::isfinite(static_cast<float>(values[i])))
                             values[i] = static_cast<Value>(bias == nullptr ? 0.F : bias[i]);
                         }
                       });
}

}  // namespace

void restore_zero_outputs(const ConvolutionGeometry& geometry, const torch::Tensor& input,
                          const float* bias, const torch::Tensor& output) {
  const auto flags = flags_of(input, geometry.inputs);
  if (output.scalar_type() == torch::kFloat)
    restore_outputs<float>(geometry, flags, bias, output);
  else
    restore_outputs<c10::BFloat16>(geometry, flags, bias, output);
}

void restore_zero_input_gradients(const ConvolutionGeometry& geometry,
                                  const torch::Tensor& output_gradient,
                                  const torch::Tensor& input_gradient) {
  const auto flags = flags_of(output_gradient, geometry.outputs);
  set_unreached<float>(geometry, windows_of(geometry, false), flags, input_gradient,
                       geometry.inputs, [&](float* values) {
                         for (std::int64_t i = 0; i < geometry.inputs; ++i)
                           if (std::isfinite(values[i])) values[i] = 0;
                       });
}

}  // namespace kolo
