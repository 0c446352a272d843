#include "kolo/optim/layerwise_optimizers.h"

#include <cmath>
#include <cstddef>

#include "optim/layerwise_kernels.h"
#include "optim/typed_optimizer.h"

namespace kolo {

namespace {

class Lars final : public optim::TypedOptimizer<Lars> {
 public:
  explicit Lars(const LarsOptions& options) : options_(options) {
    optim::require_not_negative("lars", "momentum", options.momentum);
    optim::require_not_negative("lars", "weight_decay", options.weight_decay);
    optim::require_positive("lars", "trust_coefficient", options.trust_coefficient);
  }

  [[nodiscard]] std::string name() const override { return "lars"; }
  [[nodiscard]] std::span<const std::string_view> state_names() const override {
    static constexpr std::array<std::string_view, 1> names = {"momentum_buffer"};
    return std::span(names).first(options_.momentum > 0 ? 1 : 0);
  }
  [[nodiscard]] bool is_layerwise() const override { return true; }
  [[nodiscard]] bool spares_vectors() const override { return options_.exclude_vectors; }

  template <typename T>
  void run(const FlatSlice<T>& slice, double rate, std::int64_t /*step*/) const {
    const bool is_excluded = options_.exclude_vectors && slice.is_vector;
    T* const parameters = slice.parameters.data();
    const T* const gradients = slice.gradients.data();
    const std::size_t size = slice.parameters.size();
    const double scale =
        is_excluded ? 1 : scale_of(optim::square_sums(parameters, gradients, size));
    const optim::LarsConstants<T> constants{
        .rate = static_cast<T>(rate * scale),
        .weight_decay = static_cast<T>(is_excluded ? 0 : options_.weight_decay),
        .momentum = static_cast<T>(options_.momentum)};
    optim::lars(parameters, gradients, options_.momentum > 0 ? slice.state[0].data() : nullptr,
                size, constants);
  }

 private:
  [[nodiscard]] double scale_of(const optim::SquareSums& sums) const {
    if (sums.parameters == 0 || sums.directions == 0) return 1;
    const double norm = std::sqrt(sums.parameters);
    return options_.trust_coefficient * norm /
           (std::sqrt(sums.directions) + options_.weight_decay * norm);
  }

  LarsOptions options_;
};

class Lamb final : public optim::TypedOptimizer<Lamb> {
 public:
  explicit Lamb(const LambOptions& options) : options_(options) {
    optim::require_fraction("lamb", "beta1", options.beta1);
    optim::require_fraction("lamb", "beta2", options.beta2);
    optim::require_not_negative("lamb", "epsilon", options.epsilon);
    optim::require_not_negative("lamb", "weight_decay", options.weight_decay);
  }

  [[nodiscard]] std::string name() const override { return "lamb"; }
  [[nodiscard]] std::span<const std::string_view> state_names() const override {
    static constexpr std::array<std::string_view, 2> names = {"exp_avg", "exp_avg_sq"};
    return names;
  }
  [[nodiscard]] bool is_layerwise() const override { return true; }
  [[nodiscard]] bool spares_vectors() const override { return options_.exclude_vectors; }

  template <typename T>
  void run(const FlatSlice<T>& slice, double rate, std::int64_t step) const {
    const bool is_excluded = options_.exclude_vectors && slice.is_vector;
    const auto steps = static_cast<double>(step);
    const double correction1 = 1 - std::pow(options_.beta1, steps);
    const double correction2 = 1 - std::pow(options_.beta2, steps);
    const optim::LambConstants<T> constants{
        .beta1 = static_cast<T>(options_.beta1),
        .one_minus_beta1 = static_cast<T>(1 - options_.beta1),
        .beta2 = static_cast<T>(options_.beta2),
        .one_minus_beta2 = static_cast<T>(1 - options_.beta2),
        .epsilon = static_cast<T>(options_.epsilon),
        .weight_decay = static_cast<T>(is_excluded ? 0 : options_.weight_decay),
        .mean_scale = static_cast<T>(1 / correction1),
        .root_scale = static_cast<T>(1 / std::sqrt(correction2))};
    T* const parameters = slice.parameters.data();
    T* const mean = slice.state[0].data();
    T* const mean_square = slice.state[1].data();
    const std::size_t size = slice.parameters.size();
    const auto sums =
        optim::lamb_moments(parameters, slice.gradients.data(), mean, mean_square, size, constants);
    const double scale = is_excluded || sums.parameters == 0 || sums.directions == 0
                             ? 1
                             : std::sqrt(sums.parameters / sums.directions);
    optim::lamb_step(parameters, mean, mean_square, size, static_cast<T>(rate * scale), constants);
  }

 private:
  LambOptions options_;
};

}  // namespace

std::unique_ptr<FlatOptimizer> make_lars(const LarsOptions& options) {
  return std::make_unique<Lars>(options);
}

std::unique_ptr<FlatOptimizer> make_lamb(const LambOptions& options) {
  return std::make_unique<Lamb>(options);
}

}  // namespace kolo
