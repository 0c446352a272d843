#include <cmath>
#include <cstddef>

#include "kolo/optim/flat_optimizer.h"
#include "optim/typed_optimizer.h"

namespace kolo {

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
