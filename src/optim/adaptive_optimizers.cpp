#include "kolo/optim/flat_optimizer.h"

#include <cmath>
#include <cstddef>

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

class Rmsprop final : public optim::Decaying<Rmsprop, RmspropOptions> {
 public:
  explicit Rmsprop(const RmspropOptions& options)
      : Decaying("rmsprop", states_of(options), options) {
    optim::require_fraction("rmsprop", "rho", options.rho);
    optim::require_not_negative("rmsprop", "momentum", options.momentum);
  }

  [[nodiscard]] StepConstants constants_of(double rate, std::int64_t /*step*/,
                                           bool is_vector) const {
    return optim::stored<optim::RmspropConstants>(
        {.decay = decay(rate, is_vector),
         .rate = rate,
         .rho = options_.rho,
         .one_minus_rho = 1 - options_.rho,
         .momentum = options_.momentum,
         .epsilon_in_root = options_.epsilon_in_root ? options_.epsilon : 0,
         .epsilon_to_root = options_.epsilon_in_root ? 0 : options_.epsilon});
  }

  template <typename T, typename Visit>
  void with_step(const Visit& visit) const {
    const bool has_momentum = options_.momentum > 0;
    if (has_momentum && options_.centered) {
      visit(std::type_identity<optim::RmspropStep<T, true, true>>());
    } else if (has_momentum) {
      visit(std::type_identity<optim::RmspropStep<T, true, false>>());
    } else if (options_.centered) {
      visit(std::type_identity<optim::RmspropStep<T, false, true>>());
    } else {
      visit(std::type_identity<optim::RmspropStep<T, false, false>>());
    }
  }

 private:
  static std::vector<std::string_view> states_of(const RmspropOptions& options) {
    std::vector<std::string_view> names = {"square_avg"};
    if (options.momentum > 0) names.push_back("momentum_buffer");
    if (options.centered) names.push_back("grad_avg");
    return names;
  }
};

class Adagrad final : public optim::Decaying<Adagrad, AdagradOptions> {
 public:
  explicit Adagrad(const AdagradOptions& options) : Decaying("adagrad", {"sum"}, options) {
    optim::require_not_negative("adagrad", "initial_accumulator", options.initial_accumulator);
  }

  [[nodiscard]] double initial_state(std::size_t /*place*/) const override {
    return options_.initial_accumulator;
  }

  [[nodiscard]] StepConstants constants_of(double rate, std::int64_t /*step*/,
                                           bool is_vector) const {
    return optim::stored<optim::AdagradConstants>(
        {.decay = decay(rate, is_vector),
         .rate = rate,
         .epsilon_in_root = options_.epsilon_in_root ? options_.epsilon : 0,
         .epsilon_to_root = options_.epsilon_in_root ? 0 : options_.epsilon});
  }

  template <typename T, typename Visit>
  void with_step(const Visit& visit) const {
    visit(std::type_identity<optim::AdagradStep<T>>());
  }
};

class Adadelta final : public optim::Decaying<Adadelta, AdadeltaOptions> {
 public:
  explicit Adadelta(const AdadeltaOptions& options)
      : Decaying("adadelta", {"square_avg", "acc_delta"}, options) {
    optim::require_fraction("adadelta", "rho", options.rho);
  }

  [[nodiscard]] StepConstants constants_of(double rate, std::int64_t /*step*/,
                                           bool is_vector) const {
    return optim::stored<optim::AdadeltaConstants>({.decay = decay(rate, is_vector),
                                                    .rate = rate,
                                                    .rho = options_.rho,
                                                    .one_minus_rho = 1 - options_.rho,
                                                    .epsilon = options_.epsilon});
  }

  template <typename T, typename Visit>
  void with_step(const Visit& visit) const {
    visit(std::type_identity<optim::AdadeltaStep<T>>());
  }
};

class Adamax final : public optim::Decaying<Adamax, AdamaxOptions> {
 public:
  explicit Adamax(const AdamaxOptions& options)
      : Decaying("adamax", {"exp_avg", "exp_inf"}, options) {
    optim::require_fraction("adamax", "beta1", options.beta1);
    optim::require_fraction("adamax", "beta2", options.beta2);
  }

  [[nodiscard]] StepConstants constants_of(double rate, std::int64_t step, bool is_vector) const {
    const double correction = 1 - std::pow(options_.beta1, static_cast<double>(step));
    return optim::stored<optim::AdamaxConstants>({.decay = decay(rate, is_vector),
                                                  .beta1 = options_.beta1,
                                                  .one_minus_beta1 = 1 - options_.beta1,
                                                  .beta2 = options_.beta2,
                                                  .epsilon = options_.epsilon,
                                                  .step_size = rate / correction});
  }

  template <typename T, typename Visit>
  void with_step(const Visit& visit) const {
    visit(std::type_identity<optim::AdamaxStep<T>>());
  }
};

class Nadam final : public optim::Decaying<Nadam, NadamOptions> {
 public:
  explicit Nadam(const NadamOptions& options)
      : Decaying("nadam", {"exp_avg", "exp_avg_sq"}, options) {
    optim::require_fraction("nadam", "beta1", options.beta1);
    optim::require_fraction("nadam", "beta2", options.beta2);
    optim::require_not_negative("nadam", "momentum_decay", options.momentum_decay);
  }

  [[nodiscard]] StepConstants constants_of(double rate, std::int64_t step, bool is_vector) const {
    const auto steps = static_cast<double>(step);
    const NesterovSchedule schedule(options_.beta1, options_.momentum_decay);
    const double product = schedule.product(steps);
    const double next = schedule.momentum(steps + 1);
    const double correction2 = 1 - std::pow(options_.beta2, steps);
    return optim::stored<optim::NadamConstants>(
        {.decay = decay(rate, is_vector),
         .rate = rate,
         .beta1 = options_.beta1,
         .one_minus_beta1 = 1 - options_.beta1,
         .beta2 = options_.beta2,
         .one_minus_beta2 = 1 - options_.beta2,
         .epsilon = options_.epsilon,
         .mean_weight = next / (1 - product * next),
         .gradient_weight = (1 - schedule.momentum(steps)) / (1 - product),
         .root_scale = 1 / std::sqrt(correction2)});
  }

  template <typename T, typename Visit>
  void with_step(const Visit& visit) const {
    visit(std::type_identity<optim::NadamStep<T>>());
  }
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

namespace {

// The momentum is what makes the parameters a mixture of z and x.
template <typename Algorithm>
class ScheduleFree : public optim::ElementwiseOptimizer<Algorithm> {
 public:
  [[nodiscard]] bool spares_vectors() const final { return decay_.spares_vectors(); }
  [[nodiscard]] std::optional<ParametersForUse> for_use() const final {
    return ParametersForUse{0, 1 - momentum_};
  }

 protected:
  ScheduleFree(std::string_view name, std::vector<std::string_view> states, double momentum,
               double weight_decay, bool excludes_vectors)
      : optim::ElementwiseOptimizer<Algorithm>(name, std::move(states)),
        momentum_(momentum),
        decay_{weight_decay, false, excludes_vectors} {
    optim::require_not_negative(name, "weight_decay", weight_decay);
  }

  // But for what AdamW has besides.
  [[nodiscard]] optim::ScheduleFreeConstants<double> common(StepRate rate, bool is_vector) const {
    return {.rate = rate.learning_rate,
            .decay = decay_.in_gradient(is_vector),
            .direct_rate = (1 - momentum_) * rate.learning_rate,
            .average_weight = momentum_ * rate.share,
            .kept = 1 - rate.share};
  }

 private:
  double momentum_;
  optim::Decay decay_;
};

class ScheduleFreeSgd final : public ScheduleFree<ScheduleFreeSgd> {
 public:
  explicit ScheduleFreeSgd(const ScheduleFreeSgdOptions& options)
      : ScheduleFree("schedule_free_sgd", {"z_minus_x"}, options.momentum, options.weight_decay,
                     options.decay_excludes_vectors) {
    optim::require_fraction("schedule_free_sgd", "momentum", options.momentum);
  }

  [[nodiscard]] StepConstants constants_of(StepRate rate, std::int64_t /*step*/,
                                           bool is_vector) const {
    return optim::stored<optim::ScheduleFreeConstants>(common(rate, is_vector));
  }

  template <typename T, typename Visit>
  void with_step(const Visit& visit) const {
    visit(std::type_identity<optim::ScheduleFreeSgdStep<T>>());
  }
};

class ScheduleFreeAdamw final : public ScheduleFree<ScheduleFreeAdamw> {
 public:
  explicit ScheduleFreeAdamw(const ScheduleFreeAdamwOptions& options)
      : ScheduleFree("schedule_free_adamw", {"z_minus_x", "exp_avg_sq"}, options.beta1,
                     options.weight_decay, options.decay_excludes_vectors),
        options_(options) {
    optim::require_fraction("schedule_free_adamw", "beta1", options.beta1);
    optim::require_fraction("schedule_free_adamw", "beta2", options.beta2);
    optim::require_not_negative("schedule_free_adamw", "epsilon", options.epsilon);
  }

  [[nodiscard]] StepConstants constants_of(StepRate rate, std::int64_t step, bool is_vector) const {
    auto constants = common(rate, is_vector);
    constants.beta2 = options_.beta2;
    constants.one_minus_beta2 = 1 - options_.beta2;
    constants.epsilon = options_.epsilon;
    constants.root_scale = 1 / std::sqrt(1 - std::pow(options_.beta2, static_cast<double>(step)));
    return optim::stored<optim::ScheduleFreeConstants>(constants);
  }

  template <typename T, typename Visit>
  void with_step(const Visit& visit) const {
    visit(std::type_identity<optim::ScheduleFreeAdamwStep<T>>());
  }

 private:
  ScheduleFreeAdamwOptions options_;
};

}  // namespace

std::unique_ptr<FlatOptimizer> make_schedule_free_sgd(const ScheduleFreeSgdOptions& options) {
  return std::make_unique<ScheduleFreeSgd>(options);
}

std::unique_ptr<FlatOptimizer> make_schedule_free_adamw(const ScheduleFreeAdamwOptions& options) {
  return std::make_unique<ScheduleFreeAdamw>(options);
}

}  // namespace kolo
