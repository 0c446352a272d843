#include "parallel/tensors/tensors.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/parallel/gradient_norm.h"
#include "parallel/kernels.h"

namespace kolo::parallel {

namespace {

// Bits of the exponent, which are all set in infinity and what is not a number; nothing for
// integers, which are finite.
std::optional<std::uint64_t> exponent_bits(torch::ScalarType type) {
  switch (type) {
    case torch::kDouble:
      return 0x7ff0'0000'0000'0000U;
    case torch::kFloat:
      return 0x7f80'0000U;
    case torch::kBFloat16:
      return 0x7f80U;
    case torch::kHalf:
      return 0x7c00U;
    default:
      return std::nullopt;
  }
}

// `Word`: unsigned, as wide as an element.
template <typename Word>
void find_bits(const torch::Tensor& contiguous, std::uint64_t bits, const torch::Tensor& found) {
  const auto words = elements_of<const Word>(contiguous);
  auto* const is_found = found.data_ptr<std::int32_t>();
  if (contiguous.is_cuda())
    find_all_bits_on_device(words, static_cast<Word>(bits), is_found,
                            current_stream(contiguous.device()));
  else if (has_all_bits(words, static_cast<Word>(bits)))
    *is_found = 1;
}

}  // namespace

void find_non_finite(const torch::Tensor& tensor, const torch::Tensor& found) {
  const auto bits = exponent_bits(tensor.scalar_type());
  if (!bits || tensor.numel() == 0) return;
  const torch::NoGradGuard no_gradient;
  if (!tensor.is_cuda() && !tensor.is_cpu()) {
    torch::Tensor(found).logical_or_(torch::isfinite(tensor).all().logical_not());
    return;
  }
  c10::OptionalDeviceGuard guard;
  if (tensor.is_cuda()) guard.reset_device(tensor.device());
  const torch::Tensor contiguous = tensor.contiguous();
  switch (contiguous.element_size()) {
    case 8:
      return find_bits<std::uint64_t>(contiguous, *bits, found);
    case 4:
      return find_bits<std::uint32_t>(contiguous, *bits, found);
    default:
      return find_bits<std::uint16_t>(contiguous, *bits, found);
  }
}

void add_to_norm(const torch::Tensor& tensor, const torch::Tensor& total) {
  const torch::NoGradGuard no_gradient;
  const auto type = tensor.scalar_type();
  const bool is_wide = type == torch::kFloat || type == torch::kDouble;
  const torch::Tensor contiguous = (is_wide ? tensor : tensor.to(torch::kFloat)).contiguous();
  const bool is_double = contiguous.scalar_type() == torch::kDouble;
  // The host makes no copy in double precision: for gradients of some MB the memory of one costs
  // more than the pass.
  if (contiguous.is_cpu()) {
    auto& sum = *total.data_ptr<double>();
    sum += is_double ? sum_of_squares(elements_of<const double>(contiguous))
                     : sum_of_squares(elements_of<const float>(contiguous));
    return;
  }
  if (!contiguous.is_cuda()) {  // neither the host nor CUDA
    torch::Tensor(total).add_(contiguous.to(torch::kDouble).square().sum());
    return;
  }
  const c10::DeviceGuard guard(contiguous.device());
  const auto bytes = squares_workspace_bytes(static_cast<std::size_t>(contiguous.numel()));
  const torch::Tensor workspace =
      torch::empty({static_cast<std::int64_t>(bytes)}, contiguous.options().dtype(torch::kByte));
  const std::span room(static_cast<std::byte*>(workspace.data_ptr()), bytes);
  auto* const sum = total.data_ptr<double>();
  const auto stream = current_stream(contiguous.device());
  if (is_double)
    add_squares_on_device(sum, elements_of<const double>(contiguous), room, stream);
  else
    add_squares_on_device(sum, elements_of<const float>(contiguous), room, stream);
}

namespace {

// sum_of_mixed() by LibTorch, to its bits.
torch::Tensor sum_of_mixed_there(const torch::Tensor& words) {
  constexpr std::int64_t at_once = std::int64_t{1} << 22, low_half = 0xffff'ffff;
  const auto options = words.options().dtype(torch::kLong);
  auto sum = torch::zeros({}, options);
  for (std::int64_t begin = 0; begin < words.numel(); begin += at_once) {
    const std::int64_t end = std::min(begin + at_once, words.numel());
    auto mixed =
        torch::arange(begin, end, options).mul_(low_half + 1).add_(words.slice(0, begin, end));
    for (const std::uint64_t factor : mixing_factors) {
      mixed.mul_(static_cast<std::int64_t>(factor));
      mixed.bitwise_xor_(mixed.bitwise_right_shift(32).bitwise_and_(low_half));
    }
    sum.add_(mixed.sum());
  }
  return sum;
}

torch::Tensor checksum_there(const torch::Tensor& tensor) {
  constexpr std::int64_t word_bytes = sizeof(std::int32_t);
  auto bytes = tensor.contiguous().view({-1}).view(torch::kByte);
  const std::int64_t size = bytes.numel();
  if (size % word_bytes != 0 || bytes.storage_offset() % word_bytes != 0)  // view() refuses them
    bytes = torch::constant_pad_nd(bytes, {0, (word_bytes - size % word_bytes) % word_bytes});
  const auto words = bytes.view(torch::kInt);
  if (words.is_cuda()) return sum_of_mixed_there(words).add_(size);
  const auto sum = sum_of_mixed(elements_of<const std::int32_t>(words));
  return torch::scalar_tensor(static_cast<std::int64_t>(sum), torch::kLong).add_(size);
}

}  // namespace

std::vector<std::int64_t> checksums_of(const std::vector<torch::Tensor>& tensors) {
  if (tensors.empty()) return {};
  const torch::NoGradGuard no_gradient;
  std::vector<torch::Tensor> sums;
  for (const torch::Tensor& tensor : tensors)
    sums.push_back(checksum_there(tensor.is_cuda() ? tensor : tensor.cpu()));
  const auto all = torch::stack(sums).cpu();
  const auto values = elements_of<const std::int64_t>(all);
  return {values.begin(), values.end()};
}

}  // namespace kolo::parallel

namespace kolo {

namespace {

double norm_together(const std::vector<torch::Tensor>& tensors) {
  if (tensors.empty()) return 0;
  const auto device = tensors.front().device();
  const auto total = torch::zeros({1}, torch::TensorOptions(torch::kDouble).device(device));
  for (const torch::Tensor& tensor : tensors) {
    if (tensor.device() != device) {
      throw Error(fmt::format(
          "parallel: can't clip gradients on {} and {} together; give those of one device",
          device.str(), tensor.device().str()));
    }
    parallel::add_to_norm(tensor, total);
  }
  return std::sqrt(total.item<double>());
}

}  // namespace

double clip_factor(double norm, double maximum_norm) {
  if (!(maximum_norm >= 0)) {
    throw Error(fmt::format("parallel: can't clip gradients to a norm of {}; it must be 0 or more",
                            maximum_norm));
  }
  const double factor = maximum_norm / (norm + 1e-6);
  return std::isfinite(norm) && factor < 1 ? factor : 1;
}

torch::Tensor clip_factor(const torch::Tensor& norm, double maximum_norm) {
  const auto factor = maximum_norm / (norm + 1e-6);
  return torch::where(norm.isfinite().logical_and(factor.lt(1)), factor, torch::ones_like(norm));
}

double clip_gradient_norm(const std::vector<torch::Tensor>& parameters, double maximum_norm) {
  const torch::NoGradGuard no_gradient;
  // A sparse gradient that lists rows more than once has the norm of their sums, but what is scaled
  // are the values that it holds: coalesce() gives a copy then.
  std::vector<torch::Tensor> sums, values;
  std::set<const c10::TensorImpl*> known;
  for (const torch::Tensor& parameter : parameters) {
    const torch::Tensor gradient = parameter.grad();
    if (!gradient.defined() || !known.insert(parameter.unsafeGetTensorImpl()).second) continue;
    (void)gradient.unsqueeze(0);  // throws while the gradient is being averaged
    sums.push_back(gradient.is_sparse() ? gradient.coalesce()._values() : gradient);
    values.push_back(gradient.is_sparse() ? gradient._values() : gradient);
  }
  const double norm = norm_together(sums);
  const double factor = clip_factor(norm, maximum_norm);
  if (factor < 1) {
    for (const torch::Tensor& tensor : values) tensor.mul_(factor);
  }
  return norm;
}

}  // namespace kolo
