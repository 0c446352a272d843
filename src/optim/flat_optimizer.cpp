#include "kolo/optim/flat_optimizer.h"

#include <cmath>
#include <cstddef>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "optim/kernels.h"
#include "optim/typed_optimizer.h"

namespace kolo::optim {

namespace {

template <typename T>
void check(const FlatOptimizer& optimizer, const FlatSlice<T>& slice, double learning_rate,
           std::int64_t step) {
  const std::size_t size = slice.parameters.size();
  const auto fail_unless = [&](bool holds, const std::string& problem) {
    if (!holds) throw Error(fmt::format("optimizer {}: {}", optimizer.name(), problem));
  };
  fail_unless(slice.gradients.size() == size,
              fmt::format("{} gradients for {} parameters, expected as many",
                          slice.gradients.size(), size));
  const auto names = optimizer.state_names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    fail_unless(slice.state[i].size() == size,
                fmt::format("{} elements of {} for {} parameters, expected as many",
                            slice.state[i].size(), names[i], size));
  }
  fail_unless(step >= 1, fmt::format("step {}, expected a count from 1", step));
  fail_unless(std::isfinite(learning_rate) && learning_rate >= 0,
              fmt::format("learning rate {}, expected a number of 0 or more", learning_rate));
}

}  // namespace

void require(bool accepted, std::string_view optimizer, std::string_view option, double value,
             std::string_view accepts) {
  if (accepted) return;
  throw InputError(
      fmt::format("optimizer {}: {} is {}, expected {}", optimizer, option, value, accepts));
}

void require_not_negative(std::string_view optimizer, std::string_view option, double value) {
  require(std::isfinite(value) && value >= 0, optimizer, option, value, "a number of 0 or more");
}

void require_positive(std::string_view optimizer, std::string_view option, double value) {
  require(std::isfinite(value) && value > 0, optimizer, option, value, "a number above 0");
}

void require_fraction(std::string_view optimizer, std::string_view option, double value) {
  require(value >= 0 && value < 1, optimizer, option, value, "a number from 0 to below 1");
}

void check_update(const FlatOptimizer& optimizer, const FlatSlice<float>& slice,
                  double learning_rate, std::int64_t step) {
  check(optimizer, slice, learning_rate, step);
}

void check_update(const FlatOptimizer& optimizer, const FlatSlice<double>& slice,
                  double learning_rate, std::int64_t step) {
  check(optimizer, slice, learning_rate, step);
}

}  // namespace kolo::optim

namespace kolo {

namespace {

class Sgd final : public optim::TypedOptimizer<Sgd> {
 public:
  explicit Sgd(const SgdOptions& options) : options_(options), decay_(optim::decay_of(options)) {
    optim::require_not_negative("sgd", "momentum", options.momentum);
    optim::require(std::isfinite(options.dampening), "sgd", "dampening", options.dampening,
                   "a number");
    optim::require_not_negative("sgd", "weight_decay", options.weight_decay);
    if (!options.nesterov) return;
    optim::require(options.momentum > 0, "sgd", "momentum", options.momentum,
                   "a number above 0 for nesterov");
    optim::require(options.dampening == 0, "sgd", "dampening", options.dampening, "0 for nesterov");
  }

  [[nodiscard]] std::string name() const override { return "sgd"; }

  [[nodiscard]] std::span<const std::string_view> state_names() const override {
    static constexpr std::array<std::string_view, 1> names = {"momentum_buffer"};
    return std::span(names).first(options_.momentum > 0 ? 1 : 0);
  }

  [[nodiscard]] bool spares_vectors() const override { return decay_.spares_vectors(); }

  template <typename T>
  void run(const FlatSlice<T>& slice, double rate, std::int64_t step) const {
    const optim::SgdConstants<T> constants{
        .rate = static_cast<T>(rate),
        .gradient_decay = static_cast<T>(decay_.in_gradient(slice.is_vector)),
        .keep = static_cast<T>(decay_.kept(rate, slice.is_vector)),
        .momentum = static_cast<T>(options_.momentum),
        .gradient_weight = static_cast<T>(1 - options_.dampening),
        .first_step = step == 1,
        .nesterov = options_.nesterov};
    T* const parameters = slice.parameters.data();
    const T* const gradients = slice.gradients.data();
    const std::size_t size = slice.parameters.size();
    if (options_.momentum > 0) {
      optim::sgd_momentum(parameters, gradients, slice.state[0].data(), size, constants);
    } else {
      optim::sgd(parameters, gradients, size, constants);
    }
  }

 private:
  SgdOptions options_;
  optim::Decay decay_;
};

class Adam final : public optim::TypedOptimizer<Adam> {
 public:
  explicit Adam(const AdamOptions& options) : options_(options), decay_(optim::decay_of(options)) {
    optim::require_fraction(name(), "beta1", options.beta1);
    optim::require_fraction(name(), "beta2", options.beta2);
    optim::require_not_negative(name(), "epsilon", options.epsilon);
    optim::require_not_negative(name(), "weight_decay", options.weight_decay);
  }

  [[nodiscard]] std::string name() const override {
    return options_.decoupled_decay ? "adamw" : "adam";
  }

  [[nodiscard]] std::span<const std::string_view> state_names() const override {
    static constexpr std::array<std::string_view, 3> names = {"exp_avg", "exp_avg_sq",
                                                              "max_exp_avg_sq"};
    return std::span(names).first(options_.amsgrad ? 3 : 2);
  }

  [[nodiscard]] bool spares_vectors() const override { return decay_.spares_vectors(); }

  template <typename T>
  void run(const FlatSlice<T>& slice, double rate, std::int64_t step) const {
    const auto steps = static_cast<double>(step);
    const double correction1 = 1 - std::pow(options_.beta1, steps);
    const double root_scale = 1 / std::sqrt(1 - std::pow(options_.beta2, steps));
    // epsilon in units of the uncorrected root: then it is the step that carries the correction.
    const bool is_before = options_.epsilon_before_correction;
    const optim::AdamConstants<T> constants{
        .beta1 = static_cast<T>(options_.beta1),
        .one_minus_beta1 = static_cast<T>(1 - options_.beta1),
        .beta2 = static_cast<T>(options_.beta2),
        .one_minus_beta2 = static_cast<T>(1 - options_.beta2),
        .epsilon = static_cast<T>(options_.epsilon),
        .step_size = static_cast<T>(rate / correction1 / (is_before ? root_scale : 1)),
        .root_scale = static_cast<T>(is_before ? 1 : root_scale),
        .gradient_decay = static_cast<T>(decay_.in_gradient(slice.is_vector)),
        .keep = static_cast<T>(decay_.kept(rate, slice.is_vector))};
    optim::adam(slice.parameters.data(), slice.gradients.data(), slice.state[0].data(),
                slice.state[1].data(), options_.amsgrad ? slice.state[2].data() : nullptr,
                slice.parameters.size(), constants);
  }

 private:
  AdamOptions options_;
  optim::Decay decay_;
};

}  // namespace

std::unique_ptr<FlatOptimizer> make_sgd(const SgdOptions& options) {
  return std::make_unique<Sgd>(options);
}

std::unique_ptr<FlatOptimizer> make_adam(const AdamOptions& options) {
  return std::make_unique<Adam>(options);
}

}  // namespace kolo
