#include "kolo/optim/flat_optimizer.h"

#include <cmath>
#include <cstddef>

#include "optim/kernels.h"
#include "optim/typed_optimizer.h"

namespace kolo {

namespace {

// Nadam's momentum, mu(t) = beta1 * (1 - q^t / 2) with q = 0.96^decay, and the product of its
// values up to a step, without walking through them: a rank that joins late knows it too.
class NesterovSchedule {
 public:
  NesterovSchedule(double beta1, double decay) : beta1_(beta1), log_base_(decay * std::log(0.96)) {}

  [[nodiscard]] double momentum(double step) const {
    return beta1_ * (1 - 0.5 * std::exp(step * log_base_));
  }

  // mu(1) * ... * mu(step). The logarithm of 1 - q^i / 2 is minus the sum over k of (q^i / 2)^k /
  // k; summed over i first, each k gives a geometric series, and the terms halve from one k to the
  // next.
  [[nodiscard]] double product(double step) const {
    double logarithm = 0;
    double half = 1;  // 2^-k
    for (int k = 1; k <= 60; ++k) {
      half *= 0.5;
      const double log_ratio = k * log_base_;  // of q^k
      const double series = log_ratio == 0 ? step
                                           : std::exp(log_ratio) * std::expm1(step * log_ratio) /
                                                 std::expm1(log_ratio);
      logarithm -= half / k * series;
    }
    return std::pow(beta1_, step) * std::exp(logarithm);
  }

 private:
  double beta1_, log_base_;
};

using Names = std::span<const std::string_view>;

// An optimizer with weight decay by the options' common fields.
template <typename Algorithm>
class Decaying : public optim::TypedOptimizer<Algorithm> {
 public:
  [[nodiscard]] bool spares_vectors() const final { return decay_.spares_vectors(); }

 protected:
  template <typename Options>
  Decaying(std::string_view name, const Options& options) : decay_(optim::decay_of(options)) {
    optim::require_not_negative(name, "epsilon", options.epsilon);
    optim::require_not_negative(name, "weight_decay", options.weight_decay);
  }

  template <typename T>
  [[nodiscard]] optim::DecayConstants<T> decay(const FlatSlice<T>& slice, double rate) const {
    return {static_cast<T>(decay_.in_gradient(slice.is_vector)),
            static_cast<T>(decay_.kept(rate, slice.is_vector))};
  }

 private:
  optim::Decay decay_;
};

class Rmsprop final : public Decaying<Rmsprop> {
 public:
  explicit Rmsprop(const RmspropOptions& options)
      : Decaying("rmsprop", options), options_(options) {
    optim::require_fraction("rmsprop", "rho", options.rho);
    optim::require_not_negative("rmsprop", "momentum", options.momentum);
    if (options.momentum > 0) names_[states_++] = "momentum_buffer";
    if (options.centered) names_[states_++] = "grad_avg";
  }

  [[nodiscard]] std::string name() const override { return "rmsprop"; }
  [[nodiscard]] Names state_names() const override { return Names(names_).first(states_); }

  template <typename T>
  void run(const FlatSlice<T>& slice, double rate, std::int64_t /*step*/) const {
    const optim::RmspropConstants<T> constants{
        .decay = decay(slice, rate),
        .rate = static_cast<T>(rate),
        .rho = static_cast<T>(options_.rho),
        .one_minus_rho = static_cast<T>(1 - options_.rho),
        .momentum = static_cast<T>(options_.momentum),
        .epsilon_in_root = static_cast<T>(options_.epsilon_in_root ? options_.epsilon : 0),
        .epsilon_to_root = static_cast<T>(options_.epsilon_in_root ? 0 : options_.epsilon)};
    optim::rmsprop(slice.parameters.data(), slice.gradients.data(), slice.state[0].data(),
                   options_.momentum > 0 ? slice.state[1].data() : nullptr,
                   options_.centered ? slice.state[states_ - 1].data() : nullptr,
                   slice.parameters.size(), constants);
  }

 private:
  RmspropOptions options_;
  std::array<std::string_view, 3> names_ = {"square_avg"};
  std::size_t states_ = 1;
};

class Adagrad final : public Decaying<Adagrad> {
 public:
  explicit Adagrad(const AdagradOptions& options)
      : Decaying("adagrad", options), options_(options) {
    optim::require_not_negative("adagrad", "initial_accumulator", options.initial_accumulator);
  }

  [[nodiscard]] std::string name() const override { return "adagrad"; }
  [[nodiscard]] Names state_names() const override {
    static constexpr std::array<std::string_view, 1> names = {"sum"};
    return names;
  }
  [[nodiscard]] double initial_state(std::size_t /*place*/) const override {
    return options_.initial_accumulator;
  }

  template <typename T>
  void run(const FlatSlice<T>& slice, double rate, std::int64_t /*step*/) const {
    const optim::AdagradConstants<T> constants{
        .decay = decay(slice, rate),
        .rate = static_cast<T>(rate),
        .epsilon_in_root = static_cast<T>(options_.epsilon_in_root ? options_.epsilon : 0),
        .epsilon_to_root = static_cast<T>(options_.epsilon_in_root ? 0 : options_.epsilon)};
    optim::adagrad(slice.parameters.data(), slice.gradients.data(), slice.state[0].data(),
                   slice.parameters.size(), constants);
  }

 private:
  AdagradOptions options_;
};

class Adadelta final : public Decaying<Adadelta> {
 public:
  explicit Adadelta(const AdadeltaOptions& options)
      : Decaying("adadelta", options), options_(options) {
    optim::require_fraction("adadelta", "rho", options.rho);
  }

  [[nodiscard]] std::string name() const override { return "adadelta"; }
  [[nodiscard]] Names state_names() const override {
    static constexpr std::array<std::string_view, 2> names = {"square_avg", "acc_delta"};
    return names;
  }

  template <typename T>
  void run(const FlatSlice<T>& slice, double rate, std::int64_t /*step*/) const {
    const optim::AdadeltaConstants<T> constants{.decay = decay(slice, rate),
                                                .rate = static_cast<T>(rate),
                                                .rho = static_cast<T>(options_.rho),
                                                .one_minus_rho = static_cast<T>(1 - options_.rho),
                                                .epsilon = static_cast<T>(options_.epsilon)};
    optim::adadelta(slice.parameters.data(), slice.gradients.data(), slice.state[0].data(),
                    slice.state[1].data(), slice.parameters.size(), constants);
  }

 private:
  AdadeltaOptions options_;
};

class Adamax final : public Decaying<Adamax> {
 public:
  explicit Adamax(const AdamaxOptions& options) : Decaying("adamax", options), options_(options) {
    optim::require_fraction("adamax", "beta1", options.beta1);
    optim::require_fraction("adamax", "beta2", options.beta2);
  }

  [[nodiscard]] std::string name() const override { return "adamax"; }
  [[nodiscard]] Names state_names() const override {
    static constexpr std::array<std::string_view, 2> names = {"exp_avg", "exp_inf"};
    return names;
  }

  template <typename T>
  void run(const FlatSlice<T>& slice, double rate, std::int64_t step) const {
    const double correction = 1 - std::pow(options_.beta1, static_cast<double>(step));
    const optim::AdamaxConstants<T> constants{.decay = decay(slice, rate),
                                              .beta1 = static_cast<T>(options_.beta1),
                                              .one_minus_beta1 = static_cast<T>(1 - options_.beta1),
                                              .beta2 = static_cast<T>(options_.beta2),
                                              .epsilon = static_cast<T>(options_.epsilon),
                                              .step_size = static_cast<T>(rate / correction)};
    optim::adamax(slice.parameters.data(), slice.gradients.data(), slice.state[0].data(),
                  slice.state[1].data(), slice.parameters.size(), constants);
  }

 private:
  AdamaxOptions options_;
};

class Nadam final : public Decaying<Nadam> {
 public:
  explicit Nadam(const NadamOptions& options) : Decaying("nadam", options), options_(options) {
    optim::require_fraction("nadam", "beta1", options.beta1);
    optim::require_fraction("nadam", "beta2", options.beta2);
    optim::require_not_negative("nadam", "momentum_decay", options.momentum_decay);
  }

  [[nodiscard]] std::string name() const override { return "nadam"; }
  [[nodiscard]] Names state_names() const override {
    static constexpr std::array<std::string_view, 2> names = {"exp_avg", "exp_avg_sq"};
    return names;
  }

  template <typename T>
  void run(const FlatSlice<T>& slice, double rate, std::int64_t step) const {
    const auto steps = static_cast<double>(step);
    const NesterovSchedule schedule(options_.beta1, options_.momentum_decay);
    const double product = schedule.product(steps);
    const double next = schedule.momentum(steps + 1);
    const double correction2 = 1 - std::pow(options_.beta2, steps);
    const optim::NadamConstants<T> constants{
        .decay = decay(slice, rate),
        .rate = static_cast<T>(rate),
        .beta1 = static_cast<T>(options_.beta1),
        .one_minus_beta1 = static_cast<T>(1 - options_.beta1),
        .beta2 = static_cast<T>(options_.beta2),
        .one_minus_beta2 = static_cast<T>(1 - options_.beta2),
        .epsilon = static_cast<T>(options_.epsilon),
        .mean_weight = static_cast<T>(next / (1 - product * next)),
        .gradient_weight = static_cast<T>((1 - schedule.momentum(steps)) / (1 - product)),
        .root_scale = static_cast<T>(1 / std::sqrt(correction2))};
    optim::nadam(slice.parameters.data(), slice.gradients.data(), slice.state[0].data(),
                 slice.state[1].data(), slice.parameters.size(), constants);
  }

 private:
  NadamOptions options_;
};

}  // namespace

std::unique_ptr<FlatOptimizer> make_rmsprop(const RmspropOptions& options) {
  return std::make_unique<Rmsprop>(options);
}

std::unique_ptr<FlatOptimizer> make_adagrad(const AdagradOptions& options) {
  return std::make_unique<Adagrad>(options);
}

std::unique_ptr<FlatOptimizer> make_adadelta(const AdadeltaOptions& options) {
  return std::make_unique<Adadelta>(options);
}

std::unique_ptr<FlatOptimizer> make_adamax(const AdamaxOptions& options) {
  return std::make_unique<Adamax>(options);
}

std::unique_ptr<FlatOptimizer> make_nadam(const NadamOptions& options) {
  return std::make_unique<Nadam>(options);
}

}  // namespace kolo
