#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/optim/flat_optimizer.h"
#include "optim/typed_optimizer.h"

// What Muon and SOAP share, which work on whole matrices by LibTorch's products and decompositions.
// What is done element by element takes a product and a sum as two operations: LibTorch fuses them
// in whole vectors only, so that the bits would depend on how its threads cut a tensor.
namespace kolo::optim {

using Shape = std::span<const std::int64_t>;
using torch::Tensor;

// A view.
[[nodiscard]] Tensor tensor_of(const void* data, Shape shape, Shape strides,
                               torch::ScalarType type);

// A whole parameter and what belongs to it, in its shape.
struct Whole {
  Tensor parameter, gradient;
  std::vector<Tensor> state;
  Tensor own_state;  // [elements]
  bool is_vector = false;
  bool is_outer = false;

  template <typename T>
  Whole(const FlatOptimizer& optimizer, const FlatSlice<T>& slice)
      : is_vector(slice.is_vector || slice.shape.size() < 2), is_outer(slice.is_outer) {
    const auto count = static_cast<std::int64_t>(slice.parameters.size());
    const Shape shape = slice.shape.empty() ? Shape(&count, 1) : slice.shape;
    const auto own = optimizer.own_state(shape, is_outer);
    std::int64_t own_count = 0;
    for (const auto& item : own) own_count += checked_product(Shape(item.shape));
    if (checked_product(shape) != count ||
        own_count != static_cast<std::int64_t>(slice.own_state.size())) {
      throw Error(fmt::format(
          "optimizer {}: {} elements and {} of own state for a parameter of shape [{}], expected "
          "{} and {}",
          optimizer.name(), count, slice.own_state.size(), fmt::join(shape, ", "),
          checked_product(shape), own_count));
    }
    constexpr auto type = torch::CppTypeToScalarType<T>::value;
    parameter = tensor_of(slice.parameters.data(), shape, slice.strides, type);
    gradient = tensor_of(slice.gradients.data(), shape, slice.strides, type);
    for (std::size_t i = 0; i < optimizer.state_names().size(); ++i)
      state.push_back(tensor_of(slice.state[i].data(), shape, slice.strides, type));
    own_state = tensor_of(slice.own_state.data(), Shape(&own_count, 1), {}, type);
  }
};

struct Sides {
  std::int64_t rows, columns;
  explicit Sides(Shape shape) : rows(shape[0]), columns(checked_product(shape.subspan(1))) {}
};

// Of the first dimension and the others together.
[[nodiscard]] Tensor as_matrix(const Tensor& tensor);

void blend(Tensor average, const Tensor& value, double beta);

struct AdamwNumbers {
  double rate, beta1, beta2, epsilon;
  double keep;  // factor on the parameter
};

// Kingma and Ba's step, with decoupled decay, as torch::optim::AdamW makes it.
void step_by_adamw(const Tensor& parameter, const Tensor& gradient, const Tensor& mean,
                   const Tensor& mean_square, std::int64_t step, const AdamwNumbers& by);

// Of all elements, in double, in an order that depends on no threads.
[[nodiscard]] double norm_of(const Tensor& contiguous);

// Both types' updates, checked, as Algorithm::run(whole, rate, step).
template <typename Algorithm>
class MatrixOptimizer : public FlatOptimizer {
 public:
  [[nodiscard]] bool is_layerwise() const final { return true; }
  [[nodiscard]] bool has_device_steps() const final { return false; }
  void update(const FlatSlice<float>& slice, StepRate rate, std::int64_t step) const final {
    run(slice, rate, step);
  }
  void update(const FlatSlice<double>& slice, StepRate rate, std::int64_t step) const final {
    run(slice, rate, step);
  }

 private:
  template <typename T>
  void run(const FlatSlice<T>& slice, StepRate rate, std::int64_t step) const {
    check_slice(*this, slice);
    check_step(*this, rate, step);
    const torch::NoGradGuard no_gradient;
    if (slice.parameters.empty()) return;
    static_cast<const Algorithm&>(*this).step(Whole(*this, slice), rate.learning_rate, step);
  }
};

}  // namespace kolo::optim
