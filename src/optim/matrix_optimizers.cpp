#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/optim/flat_optimizer.h"
#include "optim/typed_optimizer.h"

// Muon and SOAP, by LibTorch's products and decompositions. What is done element by element takes a
// product and a sum as two operations: LibTorch fuses them in whole vectors only, so that the bits
// would depend on how its threads cut a tensor.
namespace kolo {

namespace {

using Shape = std::span<const std::int64_t>;
using torch::Tensor;

Tensor tensor_of(const void* data, Shape shape, Shape strides, torch::ScalarType type) {
  const torch::TensorOptions options(type);
  void* const place = const_cast<void*>(data);
  const torch::IntArrayRef sizes(shape.data(), shape.size());
  if (strides.empty()) return torch::from_blob(place, sizes, options);
  return torch::from_blob(place, sizes, torch::IntArrayRef(strides.data(), strides.size()),
                          options);
}

std::int64_t size_of_slice(std::size_t elements) {
  return static_cast<std::int64_t>(elements);
}

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
    const auto count = size_of_slice(slice.parameters.size());
    const Shape shape = slice.shape.empty() ? Shape(&count, 1) : slice.shape;
    const auto own = optimizer.own_state(shape, is_outer);
    std::int64_t own_count = 0;
    for (const auto& item : own) own_count += checked_product(Shape(item.shape));
    if (checked_product(shape) != count || own_count != size_of_slice(slice.own_state.size())) {
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

// Of the first dimension and the others together.
Tensor as_matrix(const Tensor& tensor) {
  return tensor.reshape({tensor.size(0), -1});
}

struct Sides {
  std::int64_t rows, columns;
  explicit Sides(Shape shape) : rows(shape[0]), columns(checked_product(shape.subspan(1))) {}
};

void blend(Tensor average, const Tensor& value, double beta) {
  average.mul_(beta).add_(value.mul(1 - beta));
}

struct AdamwNumbers {
  double rate, beta1, beta2, epsilon;
  double keep;  // factor on the parameter
};

// Kingma and Ba's step, with decoupled decay, as torch::optim::AdamW makes it.
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
    optim::check_slice(*this, slice);
    optim::check_step(*this, rate, step);
    const torch::NoGradGuard no_gradient;
    if (slice.parameters.empty()) return;
    static_cast<const Algorithm&>(*this).step(Whole(*this, slice), rate.learning_rate, step);
  }
};

// Of all elements, in double, in an order that depends on no threads.
double norm_of(const Tensor& contiguous) {
  const auto size = static_cast<std::size_t>(contiguous.numel());
  return std::sqrt(contiguous.scalar_type() == torch::kDouble
                       ? optim::sum_of_squares(contiguous.data_ptr<double>(), size)
                       : optim::sum_of_squares(contiguous.data_ptr<float>(), size));
}

// From here on the products among the short sides cost less than those with the whole matrix.
bool is_long(double less, double more) {
  return more >= 2 * less;
}

double orthogonalization_operations(double less, double more, int iterations) {
  const double square = less * less;
  if (is_long(less, more)) return 4 * square * more + iterations * 8 * square * less;
  return iterations * (4 * square * more + 2 * square * less);
}

// Nearly U V' of X = U S V': singular values from about 0.7 to 1.2, by a polynomial of odd powers
// that was chosen for how fast it lifts the small ones. All iterations multiply X from the left by
// a polynomial of its own X X', so that of a long matrix they are made for that product alone, and
// multiply X in the end.
Tensor orthogonalized(const Tensor& matrix, int iterations, double epsilon) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const bool is_tall = matrix.size(0) > matrix.size(1);
  Tensor x = (is_tall ? matrix.t() : matrix).contiguous();
  x = x.div(std::max(norm_of(x), epsilon));
  if (is_long(static_cast<double>(x.size(0)), static_cast<double>(x.size(1)))) {
    const Tensor one = torch::eye(x.size(0), x.options());
    Tensor gram = x.mm(x.t()), factor = one;
    for (int i = 0; i < iterations; ++i) {
      const Tensor step = gram.mul(b).add_(gram.mm(gram).mul_(c)).add_(one.mul(a));
      factor = step.mm(factor);
      gram = step.mm(gram).mm(step);
    }
    x = factor.mm(x);
  } else {
    for (int i = 0; i < iterations; ++i) {
      const Tensor gram = x.mm(x.t());
      const Tensor polynomial = gram.mul(b).add_(gram.mm(gram).mul_(c));
      x = polynomial.mm(x).add_(x.mul(a));
    }
  }
  return is_tall ? x.t() : x;
}

class Muon final : public MatrixOptimizer<Muon> {
 public:
  explicit Muon(const MuonOptions& options)
      : options_(options), decay_{options.weight_decay, true, options.decay_excludes_vectors} {
    optim::require_fraction("muon", "momentum", options.momentum);
    optim::require(options.iterations >= 1, "muon", "iterations", options.iterations,
                   "a whole number from 1");
    optim::require_positive("muon", "epsilon", options.epsilon);
    optim::require_not_negative("muon", "weight_decay", options.weight_decay);
    optim::require_not_negative("muon", "adamw_rate_ratio", options.adamw_rate_ratio);
    optim::require_fraction("muon", "adamw_beta1", options.adamw_beta1);
    optim::require_fraction("muon", "adamw_beta2", options.adamw_beta2);
    optim::require_not_negative("muon", "adamw_epsilon", options.adamw_epsilon);
  }

  [[nodiscard]] std::string name() const override { return "muon"; }
  [[nodiscard]] std::span<const std::string_view> state_names() const override {
    static constexpr std::array<std::string_view, 1> names = {"exp_avg"};
    return names;
  }
  [[nodiscard]] bool spares_vectors() const override { return true; }
  [[nodiscard]] std::vector<OwnState> own_state(Shape shape, bool is_outer) const override {
    if (is_hidden_matrix(shape.size(), is_outer)) return {};
    return {{"exp_avg_sq", {shape.begin(), shape.end()}}};
  }
  [[nodiscard]] double step_operations(Shape shape, bool is_outer) const override {
    if (!is_hidden_matrix(shape.size(), is_outer)) return 0;
    const Sides sides(shape);
    const auto less = static_cast<double>(std::min(sides.rows, sides.columns));
    const auto more = static_cast<double>(std::max(sides.rows, sides.columns));
    return orthogonalization_operations(less, more, options_.iterations);
  }

  void step(const Whole& whole, double rate, std::int64_t step) const {
    if (!is_hidden_matrix(whole.is_vector ? 1 : 2, whole.is_outer)) {
      const double own_rate = rate * options_.adamw_rate_ratio;
      return step_by_adamw(whole.parameter, whole.gradient, whole.state[0],
                           whole.own_state.view_as(whole.parameter), step,
                           {.rate = own_rate,
                            .beta1 = options_.adamw_beta1,
                            .beta2 = options_.adamw_beta2,
                            .epsilon = options_.adamw_epsilon,
                            .keep = decay_.kept(own_rate, whole.is_vector)});
    }
    const double momentum = options_.momentum;
    const Tensor& mean = whole.state[0];
    blend(mean, whole.gradient, momentum);
    const Tensor update =
        options_.nesterov ? whole.gradient.mul(1 - momentum).add_(mean.mul(momentum)) : mean;
    const Tensor matrix = as_matrix(update);
    const Tensor direction = orthogonalized(matrix, options_.iterations, options_.epsilon);
    Tensor(whole.parameter)
        .mul_(decay_.kept(rate, false))
        .sub_(direction.mul(rate * adjustment(matrix)).reshape(whole.parameter.sizes()));
  }

 private:
  [[nodiscard]] bool is_hidden_matrix(std::size_t dimensions, bool is_outer) const {
    return dimensions > 1 && !(is_outer && options_.hidden_only);
  }

  [[nodiscard]] double adjustment(const Tensor& matrix) const {
    const auto rows = static_cast<double>(matrix.size(0));
    const auto columns = static_cast<double>(matrix.size(1));
    if (options_.adjust == MuonAdjustment::original) return std::sqrt(std::max(1., rows / columns));
    return .2 * std::sqrt(std::max(rows, columns));
  }

  MuonOptions options_;
  optim::Decay decay_;
};

// A side of a matrix in SOAP: a moving average of g g' (or g' g) and nearly its eigenvectors.
struct PreconditionedSide {
  Tensor average, basis;
};

class Soap final : public MatrixOptimizer<Soap> {
 public:
  explicit Soap(const SoapOptions& options)
      : options_(options), decay_{options.weight_decay, true, options.decay_excludes_vectors} {
    optim::require_fraction("soap", "beta1", options.beta1);
    optim::require_fraction("soap", "beta2", options.beta2);
    optim::require_fraction("soap", "preconditioner_beta", options.preconditioner_beta);
    optim::require_not_negative("soap", "epsilon", options.epsilon);
    optim::require_not_negative("soap", "weight_decay", options.weight_decay);
    optim::require(options.precondition_every >= 1, "soap", "precondition_every",
                   static_cast<double>(options.precondition_every), "a whole number from 1");
    optim::require(options.largest_side >= 1, "soap", "largest_side",
                   static_cast<double>(options.largest_side), "a whole number from 1");
  }

  [[nodiscard]] std::string name() const override { return "soap"; }
  [[nodiscard]] std::span<const std::string_view> state_names() const override {
    static constexpr std::array<std::string_view, 2> names = {"exp_avg", "exp_avg_sq"};
    return names;
  }
  [[nodiscard]] bool spares_vectors() const override { return true; }
  [[nodiscard]] std::vector<OwnState> own_state(Shape shape, bool /*is_outer*/) const override {
    if (shape.size() < 2) return {};
    const Sides sides(shape);
    std::vector<OwnState> state;
    const auto add = [&](const std::string& side, std::int64_t length) {
      if (!takes(length)) return;
      state.push_back({side, {length, length}});
      state.push_back({side + "_basis", {length, length}});
    };
    add("left", sides.rows);
    add("right", sides.columns);
    return state;
  }
  [[nodiscard]] double step_operations(Shape shape, bool /*is_outer*/) const override {
    if (shape.size() < 2) return 0;
    const Sides sides(shape);
    const auto elements = static_cast<double>(sides.rows) * static_cast<double>(sides.columns);
    const auto of_side = [&](std::int64_t side) {
      const auto length = static_cast<double>(side);
      constexpr double decomposition = 6;  // times length^3: a product, and QR
      if (!takes(side)) return 0.;
      return 8 * elements * length + decomposition * length * length * length /
                                         static_cast<double>(options_.precondition_every);
    };
    return of_side(sides.rows) + of_side(sides.columns);
  }

  void step(const Whole& whole, double rate, std::int64_t step) const {
    const double keep = decay_.kept(rate, whole.is_vector);
    auto [left, right] = sides_of(whole);
    if (!left && !right) {
      return step_by_adamw(whole.parameter, whole.gradient, whole.state[0], whole.state[1], step,
                           {rate, options_.beta1, options_.beta2, options_.epsilon, keep});
    }
    const Tensor gradient = as_matrix(whole.gradient);
    if (step > 1) {
      const Tensor direction = take_gradient(whole, gradient, left, right);
      const auto steps = static_cast<double>(step - 1);
      const double step_size = rate * std::sqrt(1 - std::pow(options_.beta2, steps)) /
                               (1 - std::pow(options_.beta1, steps));
      Tensor(whole.parameter)
          .mul_(keep)
          .sub_(direction.mul(step_size).reshape(whole.parameter.sizes()));
    }
    precondition(whole, gradient, left, right, step);
  }

 private:
  using Side = std::optional<PreconditionedSide>;

  [[nodiscard]] bool takes(std::int64_t length) const { return length <= options_.largest_side; }

  [[nodiscard]] std::pair<Side, Side> sides_of(const Whole& whole) const {
    if (whole.is_vector) return {};
    std::int64_t offset = 0;
    const auto next = [&](std::int64_t length) -> Side {
      if (!takes(length)) return std::nullopt;
      const auto take = [&] {
        const Tensor part = whole.own_state.narrow(0, offset, length * length);
        offset += length * length;
        return part.view({length, length});
      };
      const Tensor average = take();
      return PreconditionedSide{average, take()};
    };
    const auto sizes = whole.parameter.sizes();
    const Sides sides(Shape(sizes.data(), sizes.size()));
    const Side left = next(sides.rows);
    return {left, next(sides.columns)};
  }

  static Tensor into_basis(Tensor matrix, const Side& left, const Side& right) {
    if (left) matrix = left->basis.t().mm(matrix);
    return right ? matrix.mm(right->basis) : matrix;
  }

  // Brings the moments up to date, and gives Adam's direction in the parameter's own basis.
  [[nodiscard]] Tensor take_gradient(const Whole& whole, const Tensor& gradient, const Side& left,
                                     const Side& right) const {
    const Tensor projected = into_basis(gradient, left, right);
    blend(whole.state[0], whole.gradient, options_.beta1);
    blend(whole.state[1], projected.mul(projected).reshape(whole.parameter.sizes()),
          options_.beta2);
    Tensor direction = into_basis(as_matrix(whole.state[0]), left, right)
                           .div(as_matrix(whole.state[1]).sqrt().add_(options_.epsilon));
    if (left) direction = left->basis.mm(direction);
    return right ? direction.mm(right->basis.t()) : direction;
  }

  // After the step, so that no gradient is seen in a basis that it has had a part in.
  void precondition(const Whole& whole, const Tensor& gradient, const Side& left, const Side& right,
                    std::int64_t step) const {
    if (left) blend(left->average, gradient.mm(gradient.t()), options_.preconditioner_beta);
    if (right) blend(right->average, gradient.t().mm(gradient), options_.preconditioner_beta);
    if (step > 1 && (step - 1) % options_.precondition_every != 0) return;
    for (const auto& [side, dimension] : {std::pair(left, 0), std::pair(right, 1)}) {
      if (!side) continue;
      require_finite(side->average);
      if (step == 1)
        Tensor(side->basis).copy_(std::get<1>(torch::linalg_eigh(side->average)).flip(1));
      else
        improve(*side, whole.state[1], dimension);
    }
  }

  // A step of orthogonal iteration. The second moments go with the columns of the basis, which are
  // kept in the order of the eigenvalues.
  static void improve(const PreconditionedSide& side, Tensor mean_square, std::int64_t dimension) {
    const Tensor product = side.average.mm(side.basis);
    const Tensor order = side.basis.mul(product).sum(0).argsort(/*dim=*/0, /*descending=*/true);
    mean_square.copy_(
        as_matrix(mean_square).index_select(dimension, order).reshape(mean_square.sizes()));
    Tensor(side.basis).copy_(std::get<0>(torch::linalg_qr(product.index_select(1, order))));
  }

  static void require_finite(const Tensor& average) {
    if (average.isfinite().all().item<bool>()) return;
    throw Error(
        "optimizer soap: a gradient is not finite, so that its preconditioner has no eigenvectors; "
        "take a smaller learning rate, or clip gradients");
  }

  SoapOptions options_;
  optim::Decay decay_;
};

}  // namespace

std::unique_ptr<FlatOptimizer> make_muon(const MuonOptions& options) {
  return std::make_unique<Muon>(options);
}

std::unique_ptr<FlatOptimizer> make_soap(const SoapOptions& options) {
  return std::make_unique<Soap>(options);
}

}  // namespace kolo
