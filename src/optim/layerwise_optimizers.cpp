#include "kolo/optim/flat_optimizer.h"

#include <algorithm>
#include <cmath>

#include "optim/typed_optimizer.h"

namespace kolo {

namespace {

// An optimizer that scales the step of a whole parameter by norms over it.
template <typename Algorithm, typename Options>
class Layerwise : public optim::TypedOptimizer<Algorithm> {
 public:
  [[nodiscard]] bool is_layerwise() const final { return true; }
  [[nodiscard]] bool spares_vectors() const final { return options_.exclude_vectors; }
  [[nodiscard]] std::size_t device_workspace_bytes(std::size_t size) const final {
    return optim::layer_scale_bytes(size);
  }

 protected:
  Layerwise(std::string_view name, std::vector<std::string_view> states, const Options& options)
      : optim::TypedOptimizer<Algorithm>(name, std::move(states)), options_(options) {}

  [[nodiscard]] bool excludes(bool is_vector) const {
    return options_.exclude_vectors && is_vector;
  }

  const Options options_;
};

class Lars final : public Layerwise<Lars, LarsOptions> {
 public:
  explicit Lars(const LarsOptions& options)
      : Layerwise("lars", optim::momentum_state(options.momentum), options) {
    optim::require_not_negative("lars", "momentum", options.momentum);
    optim::require_not_negative("lars", "weight_decay", options.weight_decay);
    optim::require_positive("lars", "trust_coefficient", options.trust_coefficient);
  }

  [[nodiscard]] StepConstants constants_of(StepRate rate, std::int64_t /*step*/,
                                           bool is_vector) const {
    return optim::stored<optim::LarsConstants>(
        {.rate = rate.learning_rate,
         .weight_decay = excludes(is_vector) ? 0 : options_.weight_decay,
         .momentum = options_.momentum,
         .trust_coefficient = options_.trust_coefficient});
  }

  template <typename T>
  void run(const FlatSlice<T>& slice, const StepConstants& constants) const {
    const double scale = excludes(slice.is_vector) ? 1 : scale_of(slice, constants);
    if (options_.momentum > 0)
      optim::run_steps(optim::step_of<optim::LarsStep<T, true>>(constants.data(), scale), slice);
    else
      optim::run_steps(optim::step_of<optim::LarsStep<T, false>>(constants.data(), scale), slice);
  }

  template <typename T>
  void run_on_device(const FlatSlice<T>& slice, const DeviceUpdate& device) const {
    const double* const scale =
        excludes(slice.is_vector) ? nullptr : optim::lars_scale_on_device(slice, device);
    if (options_.momentum > 0)
      optim::run_steps_on_device<optim::LarsStep<T, true>>(slice, device, scale);
    else
      optim::run_steps_on_device<optim::LarsStep<T, false>>(slice, device, scale);
  }

 private:
  template <typename T>
  static double scale_of(const FlatSlice<T>& slice, const StepConstants& constants) {
    const std::size_t size = slice.parameters.size();
    return optim::lars_scale(
        optim::sum_of_squares(slice.parameters.data(), size),
        optim::sum_of_squares(slice.gradients.data(), size),
        optim::rounded<optim::LarsConstants<double>, double>(constants.data()));
  }
};

class Lamb final : public Layerwise<Lamb, LambOptions> {
 public:
  explicit Lamb(const LambOptions& options)
      : Layerwise("lamb", {"exp_avg", "exp_avg_sq"}, options) {
    optim::require_moments("lamb", options);
    optim::require_not_negative("lamb", "weight_decay", options.weight_decay);
  }

  [[nodiscard]] StepConstants constants_of(StepRate rate, std::int64_t step, bool is_vector) const {
    return optim::stored<optim::LambConstants>(
        {.rate = rate.learning_rate,
         .moments = optim::moments_of(options_),
         .weight_decay = excludes(is_vector) ? 0 : options_.weight_decay,
         .mean_scale = 1 / optim::bias_correction(options_.beta1, step),
         .root_scale = 1 / std::sqrt(optim::bias_correction(options_.beta2, step))});
  }

  template <typename T>
  void run(const FlatSlice<T>& slice, const StepConstants& constants) const {
    const double scale =
        take_gradients(slice, optim::rounded<optim::LambConstants<T>, T>(constants.data()));
    optim::run_steps(
        optim::step_of<optim::LambStep<T>>(constants.data(), excludes(slice.is_vector) ? 1 : scale),
        slice);
  }

  template <typename T>
  void run_on_device(const FlatSlice<T>& slice, const DeviceUpdate& device) const {
    const double* const scale = optim::lamb_scale_on_device(slice, device);
    optim::run_steps_on_device<optim::LambStep<T>>(slice, device,
                                                   excludes(slice.is_vector) ? nullptr : scale);
  }

 private:
  // Updates the moments and gives the ratio of the parameter's norm to the direction's, block by
  // block, so that directions stay in the nearest cache until their squares are added up.
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
    return optim::lamb_scale(parameter_squares, direction_squares);
  }
};

}  // namespace

std::unique_ptr<FlatOptimizer> make_lars(const LarsOptions& options) {
  return std::make_unique<Lars>(options);
}

std::unique_ptr<FlatOptimizer> make_lamb(const LambOptions& options) {
  return std::make_unique<Lamb>(options);
}

}  // namespace kolo
