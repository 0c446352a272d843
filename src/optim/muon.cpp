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
using optim::norm_of;
using optim::Shape;
using optim::Sides;
using optim::step_by_adamw;
using optim::Tensor;
using optim::Whole;

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

}  // namespace

std::unique_ptr<FlatOptimizer> make_muon(const MuonOptions& options) {
  return std::make_unique<Muon>(options);
}

}  // namespace kolo
