#include "kolo/optim/flat_optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "optim/kernels.h"
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
    const double scale = is_excluded ? 1
                                     : scale_of(std::sqrt(optim::sum_of_squares(parameters, size)),
                                                std::sqrt(optim::sum_of_squares(gradients, size)));
    const optim::LarsConstants<T> constants{
        .rate = static_cast<T>(rate * scale),
        .weight_decay = static_cast<T>(is_excluded ? 0 : options_.weight_decay),
        .momentum = static_cast<T>(options_.momentum)};
    optim::lars(parameters, gradients, options_.momentum > 0 ? slice.state[0].data() : nullptr,
                size, constants);
  }

 private:
  [[nodiscard]] double scale_of(double parameters, double gradients) const {
    if (parameters == 0 || gradients == 0) return 1;
    return options_.trust_coefficient * parameters /
           (gradients + options_.weight_decay * parameters);
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
    const double scale = take_gradients(slice, constants);
    optim::lamb_step(slice.parameters.data(), slice.state[0].data(), slice.state[1].data(),
                     slice.parameters.size(), static_cast<T>(rate * (is_excluded ? 1 : scale)),
                     constants);
  }

 private:
  // Brings the moments up to date and gives the ratio of the parameter's norm to the direction's.
  // Block by block, so that the directions needn't be kept: they lie in the nearest cache until
  // their squares are added up.
  template <typename T>
  static double take_gradients(const FlatSlice<T>& slice,
                               const optim::LambConstants<T>& constants) {
    std::array<T, 2048> directions;
    double parameter_squares = 0, direction_squares = 0;
    for (std::size_t begin = 0; begin < slice.parameters.size(); begin += directions.size()) {
      const auto parameters = slice.parameters.subspan(
          begin, std::min(directions.size(), slice.parameters.size() - begin));
      optim::lamb_directions(parameters.data(), slice.gradients.data() + begin,
                             slice.state[0].data() + begin, slice.state[1].data() + begin,
                             directions.data(), parameters.size(), constants);
      parameter_squares += optim::sum_of_squares(parameters.data(), parameters.size());
      direction_squares += optim::sum_of_squares(directions.data(), parameters.size());
    }
    if (parameter_squares == 0 || direction_squares == 0) return 1;
    return std::sqrt(parameter_squares / direction_squares);
  }

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
