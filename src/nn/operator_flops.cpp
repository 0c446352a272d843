#include "nn/operator_flops.h"

#include <algorithm>
#include <array>

#include "kolo/base/checked.h"

namespace kolo {

namespace {

using Inputs = std::span<const c10::IValue>;

constexpr std::array<std::string_view, 27> moving_data = {
    "alpha_dropout", "cat",       "channel_shuffle",
    "chunk",         "clone",     "contiguous",
    "dropout",       "expand",    "feature_dropout",
    "flatten",       "narrow",    "pad",
    "permute",       "reshape",   "select",
    "slice",         "split",     "squeeze",
    "stack",         "t",         "to",
    "transpose",     "unflatten", "unsqueeze",
    "view",          "detach",    "constant_pad_nd"};

const torch::Tensor& tensor(Inputs inputs, std::size_t index) {
  return inputs[index].toTensor();
}

bool has_tensors(Inputs inputs, std::size_t count) {
  return inputs.size() >= count && std::all_of(inputs.begin(), inputs.begin() + count,
                                               [](const auto& each) { return each.isTensor(); });
}

// Input, weight, bias, stride, padding, dilation, transposed.
std::int64_t convolution_flops(Inputs inputs, const torch::Tensor& output, bool transposed) {
  const torch::Tensor& weight = tensor(inputs, 1);
  const std::int64_t each = weight.numel() / weight.size(0);
  return checked_multiply<std::int64_t>(
      2, checked_multiply(each, transposed ? tensor(inputs, 0).numel() : output.numel()));
}

std::int64_t multiplication_flops(const torch::Tensor& first, const torch::Tensor& output) {
  return checked_multiply<std::int64_t>(2, checked_multiply(first.size(-1), output.numel()));
}

// Input, kernel: a length for each dimension or one for all.
std::int64_t pooling_flops(std::string_view name, Inputs inputs, const torch::Tensor& output) {
  const std::vector<std::int64_t> kernel = inputs[1].toIntVector();
  const auto dimensions = static_cast<std::size_t>(name[name.find("_pool") + 5] - '0');
  std::int64_t values = checked_product<std::int64_t>(kernel);
  for (std::size_t length = kernel.size(); length < dimensions; ++length)
    values = checked_multiply(values, kernel.front());
  return checked_multiply(values, output.numel());
}

}  // namespace

std::int64_t operator_flops(std::string_view name, Inputs inputs, const torch::Tensor& output) {
  if (std::find(moving_data.begin(), moving_data.end(), name) != moving_data.end()) return 0;
  if (has_tensors(inputs, 2)) {
    if (name.starts_with("conv_transpose")) return convolution_flops(inputs, output, true);
    if (name == "convolution" || name == "_convolution")
      return convolution_flops(inputs, output, inputs[6].toBool());
    if (name.starts_with("conv")) return convolution_flops(inputs, output, false);
    if (name == "linear" || name == "matmul" || name == "mm" || name == "bmm")
      return multiplication_flops(tensor(inputs, 0), output);
    if (name == "addmm" || name == "baddbmm")
      return multiplication_flops(tensor(inputs, 1), output);
  }
  if (name.find("_norm") != std::string_view::npos) return 2 * output.numel();
  if (name.starts_with("adaptive_") || name == "mean" || name == "sum" || name == "amax")
    return tensor(inputs, 0).numel();
  if (name.starts_with("max_pool") || name.starts_with("avg_pool"))
    return pooling_flops(name, inputs, output);
  return output.numel();
}

}  // namespace kolo
