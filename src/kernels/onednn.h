#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.h>
#include <torch/types.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "kolo/base/error.h"

// Differences between oneDNN 2 and 3 (which has no operation descriptors), and its errors.
namespace kolo::onednn {

// oneDNN's exceptions as kolo's.
template <typename Function>
decltype(auto) checked(const char* what, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const dnnl::error& error) {
    throw Error(fmt::format("nn: oneDNN: {}: {} (status {})", what, error.what(),
                            static_cast<int>(error.status)));
  }
}

struct ConvolutionArguments {
  dnnl::memory::desc input, weight, bias, output;  // a bias of size zero is none
  dnnl::memory::desc weight_gradient;
  dnnl::memory::dims stride, padding;
};

// How values lie in memory: whole blocks their strides apart, and in each the inner blocks, the
// last of them running fastest.
struct Layout {
  struct Block {
    std::int64_t length = 0, dimension = 0;

    bool operator==(const Block&) const = default;
  };
  std::vector<std::int64_t> strides;
  std::vector<Block> inner;
};

using Forward = dnnl::convolution_forward;
using BackwardInput = dnnl::convolution_backward_data;
using BackwardWeight = dnnl::convolution_backward_weights;

inline constexpr auto direct = dnnl::algorithm::convolution_direct;
inline constexpr auto in_training = dnnl::prop_kind::forward_training;

#if DNNL_VERSION_MAJOR >= 3

inline Forward::primitive_desc forward_of(const dnnl::engine& engine,
                                          const ConvolutionArguments& a) {
  return {engine, in_training, direct,   a.input,   a.weight,
          a.bias, a.output,    a.stride, a.padding, a.padding};
}
inline BackwardInput::primitive_desc backward_input_of(const dnnl::engine& engine,
                                                       const ConvolutionArguments& a,
                                                       const Forward::primitive_desc& forward) {
  return {engine, direct, a.input, a.weight, a.output, a.stride, a.padding, a.padding, forward};
}
// Without the gradient of the bias, which oneDNN adds up value by value: sum_by_channel() loses
// fewer digits.
inline BackwardWeight::primitive_desc backward_weight_of(const dnnl::engine& engine,
                                                         const ConvolutionArguments& a,
                                                         const Forward::primitive_desc& forward) {
  return {engine,    direct,    a.input, a.weight_gradient, a.output, a.stride,
          a.padding, a.padding, forward};
}

inline Layout layout_of(const dnnl::memory::desc& description) {
  Layout layout{.strides = description.get_strides()};
  const auto lengths = description.get_inner_blks(), dimensions = description.get_inner_idxs();
  for (std::size_t i = 0; i < lengths.size(); ++i)
    layout.inner.push_back({lengths[i], dimensions[i]});
  return layout;
}

#else

inline Forward::primitive_desc forward_of(const dnnl::engine& engine,
                                          const ConvolutionArguments& a) {
  return {Forward::desc(in_training, direct, a.input, a.weight, a.bias, a.output, a.stride,
                        a.padding, a.padding),
          engine};
}
inline BackwardInput::primitive_desc backward_input_of(const dnnl::engine& engine,
                                                       const ConvolutionArguments& a,
                                                       const Forward::primitive_desc& forward) {
  return {BackwardInput::desc(direct, a.input, a.weight, a.output, a.stride, a.padding, a.padding),
          engine, forward};
}
inline BackwardWeight::primitive_desc backward_weight_of(const dnnl::engine& engine,
                                                         const ConvolutionArguments& a,
                                                         const Forward::primitive_desc& forward) {
  return {BackwardWeight::desc(direct, a.input, a.weight_gradient, a.output, a.stride, a.padding,
                               a.padding),
          engine, forward};
}

inline Layout layout_of(const dnnl::memory::desc& description) {
  const auto& blocking = description.data.format_desc.blocking;
  Layout layout{.strides = {blocking.strides, blocking.strides + description.data.ndims}};
  for (int i = 0; i < blocking.inner_nblks; ++i)
    layout.inner.push_back({blocking.inner_blks[i], blocking.inner_idxs[i]});
  return layout;
}

#endif

// Rounds a float32 weight with the taps first in memory to bfloat16, in one of the layouts that
// oneDNN's convolutions by AVX512-BF16 and AMX take: like its own reorder, but faster. Returns
// false, and does nothing, for another layout, or channels that don't fill vectors.
[[nodiscard]] bool pack_weight(const torch::Tensor& weight, const Layout& to, void* packed);

}  // namespace kolo::onednn
