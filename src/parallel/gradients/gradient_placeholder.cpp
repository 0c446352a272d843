#include "parallel/gradients/gradient_placeholder.h"

#include <cstring>
#include <limits>
#include <vector>

#include <torch/utils.h>

namespace kolo {

GradientPlaceholder::GradientPlaceholder(const torch::Tensor& parameter) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(parameter.dim()) + 1, 1);
  shape.front() = 2;
  const torch::NoGradGuard no_gradient;
  original_ = torch::ones(shape, torch::TensorOptions(parameter.scalar_type()));
  original_[0].fill_(std::numeric_limits<double>::infinity());
  tensor_ = original_.clone();
}

bool GradientPlaceholder::is_as_new() const {
  return std::memcmp(tensor_.data_ptr(), original_.data_ptr(), original_.nbytes()) == 0;
}

const torch::Tensor& GradientPlaceholder::renewed() {
  if (!is_as_new()) std::memcpy(tensor_.data_ptr(), original_.data_ptr(), original_.nbytes());
  return tensor_;
}

// Not is_same(): a module's zero_grad() puts a detached tensor in its place.
bool GradientPlaceholder::is(const torch::Tensor& gradient) const {
  return gradient.defined() && gradient.layout() == torch::kStrided &&
         gradient.data_ptr() == tensor_.data_ptr();
}

GradientPlaceholder::Fate GradientPlaceholder::fate(const torch::Tensor& gradient) const {
  if (!gradient.defined()) return Fate::zeroed;
  if (!is(gradient)) return Fate::changed;
  if (is_as_new()) return Fate::untouched;
  return tensor_.eq(0).all().item<bool>() ? Fate::zeroed : Fate::changed;
}

}  // namespace kolo
