#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kolo/optim/flat_optimizer.h"
#include "optim/kernels.h"

// Base classes of all optimizers, behind FlatOptimizer.
namespace kolo::optim {

// InputErrors that name the optimizer, the option, its value and what it accepts.
void require(bool accepted, std::string_view optimizer, std::string_view option, double value,
             std::string_view accepts);
void require_not_negative(std::string_view optimizer, std::string_view option, double value);
void require_positive(std::string_view optimizer, std::string_view option, double value);
void require_fraction(std::string_view optimizer, std::string_view option, double value);

// State of an optimizer whose momentum may be 0, which needs none.
[[nodiscard]] inline std::vector<std::string_view> momentum_state(double momentum) {
  if (momentum > 0) return {"momentum_buffer"};
  return {};
}

// Errors for arguments that FlatOptimizer::update() doesn't take.
template <typename T>
void check_slice(const FlatOptimizer& optimizer, const FlatSlice<T>& slice);
void check_step(const FlatOptimizer& optimizer, StepRate rate, std::int64_t step);

// Errors for arguments that FlatOptimizer::update_on_device() doesn't take.
void check_device(const FlatOptimizer& optimizer, std::size_t size, const DeviceUpdate& device);

// Turns both types' updates, checked, into Algorithm::run(slice, constants) and
// run_on_device(slice, device), templates of the type; constants are Algorithm::constants_of(rate,
// step, is_vector).
template <typename Algorithm>
class TypedOptimizer : public FlatOptimizer {
 public:
  // `name` and `states` must be string literals: only their views are kept.
  TypedOptimizer(std::string_view name, std::vector<std::string_view> states)
      : name_(name), states_(std::move(states)) {}

  [[nodiscard]] std::string name() const final { return std::string(name_); }
  [[nodiscard]] std::span<const std::string_view> state_names() const final { return states_; }

  void update(const FlatSlice<float>& slice, StepRate rate, std::int64_t step) const final {
    check_slice(*this, slice);
    algorithm().run(slice, constants(rate, step, slice.is_vector));
  }
  void update(const FlatSlice<double>& slice, StepRate rate, std::int64_t step) const final {
    check_slice(*this, slice);
    algorithm().run(slice, constants(rate, step, slice.is_vector));
  }
  [[nodiscard]] StepConstants constants(StepRate rate, std::int64_t step,
                                        bool is_vector) const final {
    check_step(*this, rate, step);
    return algorithm().constants_of(rate, step, is_vector);
  }
  void update_on_device(const FlatSlice<float>& slice, const DeviceUpdate& device) const final {
    check_slice(*this, slice);
    check_device(*this, slice.parameters.size(), device);
    algorithm().run_on_device(slice, device);
  }
  void update_on_device(const FlatSlice<double>& slice, const DeviceUpdate& device) const final {
    check_slice(*this, slice);
    check_device(*this, slice.parameters.size(), device);
    algorithm().run_on_device(slice, device);
  }

 private:
  [[nodiscard]] const Algorithm& algorithm() const { return static_cast<const Algorithm&>(*this); }

  std::string_view name_;
  std::vector<std::string_view> states_;
};

// Properties of an elementwise optimizer.
struct Elementwise {
  std::string_view name;  // a literal, as those of the states
  std::vector<std::string_view> states;
  WeightDecay decay;
  std::function<StepConstants(StepRate rate, std::int64_t step, const DecayConstants<double>&)>
      constants;
  double initial_state = 0;
  std::optional<ParametersForUse> for_use = std::nullopt;
};

// An optimizer that makes a Step<T, flags...> (element_steps.h) on each element.
template <template <typename, bool...> typename Step, bool... flags>
class ElementwiseOptimizer final : public TypedOptimizer<ElementwiseOptimizer<Step, flags...>> {
 public:
  explicit ElementwiseOptimizer(Elementwise given)
      : TypedOptimizer<ElementwiseOptimizer>(given.name, given.states), own_(std::move(given)) {
    require_not_negative(own_.name, "weight_decay", own_.decay.weight);
  }

  [[nodiscard]] double initial_state(std::size_t /*index*/) const override {
    return own_.initial_state;
  }
  [[nodiscard]] bool spares_vectors() const override {
    return own_.decay.excludes_vectors && own_.decay.weight > 0;
  }
  [[nodiscard]] std::optional<ParametersForUse> for_use() const override { return own_.for_use; }

  [[nodiscard]] StepConstants constants_of(StepRate rate, std::int64_t step, bool is_vector) const {
    const auto& [weight, is_decoupled, excludes_vectors] = own_.decay;
    const double decay = excludes_vectors && is_vector ? 0 : weight;
    const double kept = 1 - rate.learning_rate * decay;
    return own_.constants(
        rate, step, {.in_gradient = is_decoupled ? 0 : decay, .keep = is_decoupled ? kept : 1});
  }
  template <typename T>
  void run(const FlatSlice<T>& slice, const StepConstants& constants) const {
    run_steps(step_of<Step<T, flags...>>(constants.data()), slice);
  }
  template <typename T>
  void run_on_device(const FlatSlice<T>& slice, const DeviceUpdate& device) const {
    run_steps_on_device<Step<T, flags...>>(slice, device);
  }

 private:
  Elementwise own_;
};

template <template <typename, bool...> typename Step, bool... flags>
[[nodiscard]] std::unique_ptr<FlatOptimizer> elementwise(Elementwise given) {
  return std::make_unique<ElementwiseOptimizer<Step, flags...>>(std::move(given));
}

// Adam's family in common: rates of the moments and their bias corrections, and epsilon.
template <typename Options>
[[nodiscard]] MomentConstants<double> moments_of(const Options& options) {
  return {options.beta1, 1 - options.beta1, options.beta2, 1 - options.beta2, options.epsilon};
}

[[nodiscard]] inline double bias_correction(double beta, std::int64_t step) {
  return 1 - std::pow(beta, static_cast<double>(step));
}

template <typename Options>
void require_moments(std::string_view name, const Options& options) {
  require_fraction(name, "beta1", options.beta1);
  require_fraction(name, "beta2", options.beta2);
  require_not_negative(name, "epsilon", options.epsilon);
}

// The decay of the options' common fields.
template <typename Options>
[[nodiscard]] WeightDecay decay_of(const Options& options) {
  return {options.weight_decay, options.decoupled_decay, options.decay_excludes_vectors};
}

}  // namespace kolo::optim
