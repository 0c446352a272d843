#include "optim/matrix_optimizer.h"

namespace kolo::optim {

Tensor tensor_of(const void* data, Shape shape, Shape strides, torch::ScalarType type) {
  const torch::TensorOptions options(type);
  void* const place = const_cast<void*>(data);
  const torch::IntArrayRef sizes(shape.data(), shape.size());
  if (strides.empty()) return torch::from_blob(place, sizes, options);
  return torch::from_blob(place, sizes, torch::IntArrayRef(strides.data(), strides.size()),
                          options);
}

Tensor as_matrix(const Tensor& tensor) {
  return tensor.reshape({tensor.size(0), -1});
}

void blend(Tensor average, const Tensor& value, double beta) {
  average.mul_(beta).add_(value.mul(1 - beta));
}

void step_by_adamw(const Tensor& parameter, const Tensor& gradient, const Tensor& mean,
                   const Tensor& mean_square, std::int64_t step, const AdamwNumbers& by) {
  const auto steps = static_cast<double>(step);
  blend(mean, gradient, by.beta1);
  blend(mean_square, gradient.mul(gradient), by.beta2);
  const double root_scale = 1 / std::sqrt(1 - std::pow(by.beta2, steps));
  const double step_size = by.rate / (1 - std::pow(by.beta1, steps));
  const Tensor denominator = mean_square.sqrt().mul_(root_scale).add_(by.epsilon);
  Tensor(parameter).mul_(by.keep).sub_(mean.div(denominator).mul_(step_size));
}

double norm_of(const Tensor& contiguous) {
  const auto size = static_cast<std::size_t>(contiguous.numel());
  return std::sqrt(contiguous.scalar_type() == torch::kDouble
                       ? sum_of_squares(contiguous.data_ptr<double>(), size)
                       : sum_of_squares(contiguous.data_ptr<float>(), size));
}

}  // namespace kolo::optim
