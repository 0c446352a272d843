#include "parallel/gradients/gradient_norm.h"

#include <array>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

// Several sums at once, since one would wait for each addition.
template <typename T, typename Term>
double sum_of(std::span<const T> values, const Term& term) {
  constexpr std::size_t lanes = 8;
  std::array<double, lanes> sums{};
  std::size_t index = 0;
  for (; index + lanes <= values.size(); index += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane)
      sums[lane] += term(static_cast<double>(values[index + lane]));
  }
  for (; index < values.size(); ++index) sums[0] += term(static_cast<double>(values[index]));
  double sum = 0;
  for (const double each : sums) sum += each;
  return sum;
}

template <typename T>
double largest_of(std::span<const T> values) {
  double largest = 0;
  for (const T value : values) {
    const double size = std::abs(static_cast<double>(value));
    if (!(size <= largest)) largest = size;  // also when it is not a number
    if (std::isnan(largest)) break;
  }
  return largest;
}

template <typename T>
double add(double total, const torch::Tensor& tensor, double norm_type) {
  const std::span<const T> values(tensor.data_ptr<T>(), static_cast<std::size_t>(tensor.numel()));
  if (std::isinf(norm_type)) {
    const double largest = largest_of(values);
    return largest > total || std::isnan(largest) ? largest : total;
  }
  if (norm_type == 2) return total + sum_of(values, [](double value) { return value * value; });
  return total + sum_of(values, [&](double value) { return std::pow(std::abs(value), norm_type); });
}

double norm_of(const std::vector<torch::Tensor>& tensors, double norm_type) {
  double total = 0;
  for (const torch::Tensor& tensor : tensors) {
    if (tensor.scalar_type() == torch::kDouble)
      total = add<double>(total, tensor.contiguous(), norm_type);
    else
      total = add<float>(total, tensor.to(torch::kFloat).contiguous(), norm_type);
  }
  if (std::isinf(norm_type)) return total;
  return norm_type == 2 ? std::sqrt(total) : std::pow(total, 1 / norm_type);
}

}  // namespace

double clip_norm(const std::vector<torch::Tensor>& gradients, double maximum_norm,
                 double norm_type) {
  if (!(maximum_norm >= 0) || !(norm_type > 0)) {
    throw Error(fmt::format(
        "parallel: can't clip gradients to a {}-norm of {}; the norm must be 0 or more, and its "
        "type greater than 0 (or infinity)",
        norm_type, maximum_norm));
  }
  const torch::NoGradGuard no_gradient;
  // Of a sparse gradient that lists rows more than once the norm is that of their sums, but what is
  // scaled are the values that it holds: coalesce() gives a copy then.
  std::vector<torch::Tensor> sums, values;
  for (const torch::Tensor& gradient : gradients) {
    sums.push_back(gradient.is_sparse() ? gradient.coalesce()._values() : gradient);
    values.push_back(gradient.is_sparse() ? gradient._values() : gradient);
  }
  const double norm = norm_of(sums, norm_type);
  const double factor = maximum_norm / (norm + 1e-6);
  if (std::isfinite(norm) && factor < 1) {
    for (const torch::Tensor& tensor : values) tensor.mul_(factor);
  }
  return norm;
}

}  // namespace kolo
