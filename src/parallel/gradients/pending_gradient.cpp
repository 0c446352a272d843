#include "parallel/gradients/pending_gradient.h"

#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include <torch/utils.h>

namespace kolo {

PendingGradient::PendingGradient(torch::Tensor parameter) : parameter_(std::move(parameter)) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(parameter_.dim()) + 1, 1);
  shape.front() = 2;
  const torch::NoGradGuard no_gradient;
  original_ = torch::ones(shape, torch::TensorOptions(parameter_.scalar_type()));
  original_[0].fill_(std::numeric_limits<double>::infinity());
  placeholder_ = original_.clone();
}

bool PendingGradient::is_as_new() const {
  return std::memcmp(placeholder_.data_ptr(), original_.data_ptr(), original_.nbytes()) == 0;
}

const torch::Tensor& PendingGradient::renewed() {
  if (!is_as_new()) std::memcpy(placeholder_.data_ptr(), original_.data_ptr(), original_.nbytes());
  return placeholder_;
}

// Not is_same(): a module's zero_grad() puts a detached tensor in its place.
bool PendingGradient::is_placeholder(const torch::Tensor& gradient) const {
  return gradient.defined() && gradient.layout() == torch::kStrided &&
         gradient.data_ptr() == placeholder_.data_ptr();
}

void PendingGradient::begin() {
  torch::Tensor& gradient = parameter_.mutable_grad();
  aside_ = gradient;
  gradient = renewed();
}

void PendingGradient::open() {
  parameter_.mutable_grad() = later_;
  is_open_ = true;
}

PendingGradient::Fate PendingGradient::fate(const torch::Tensor& gradient) const {
  if (!gradient.defined()) return Fate::zeroed;
  if (!is_placeholder(gradient)) return Fate::changed;
  if (is_as_new()) return Fate::untouched;
  return placeholder_.eq(0).all().item<bool>() ? Fate::zeroed : Fate::changed;
}

bool PendingGradient::look() {
  torch::Tensor& gradient = parameter_.mutable_grad();
  auto what = Fate::untouched;
  if (is_open_) {
    later_ = gradient;
    is_open_ = false;
  } else {
    what = fate(gradient);
  }
  if (what == Fate::zeroed) {
    is_discarded_ = true;
    later_ = torch::Tensor();
  }
  gradient = renewed();
  return what != Fate::changed;
}

void PendingGradient::end() {
  if (aside_.defined()) parameter_.mutable_grad() = std::exchange(aside_, torch::Tensor());
}

void PendingGradient::reset() {
  torch::Tensor& gradient = parameter_.mutable_grad();
  if (is_open_ || is_placeholder(gradient)) gradient = aside_;
  aside_ = later_ = torch::Tensor();
  is_open_ = is_discarded_ = false;
}

}  // namespace kolo
