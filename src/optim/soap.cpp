#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "optim/matrix_optimizer.h"

namespace kolo {

namespace {

using optim::as_matrix;
using optim::blend;
using optim::MatrixOptimizer;
using optim::Shape;
using optim::Sides;
using optim::step_by_adamw;
using optim::Tensor;
using optim::Whole;

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

std::unique_ptr<FlatOptimizer> make_soap(const SoapOptions& options) {
  return std::make_unique<Soap>(options);
}

}  // namespace kolo
