#include "kolo/optim/flat_optimizer.h"
#include "optim/catalogue/optimizer_settings.h"

// Those that average over the steps instead of letting the rate decay. Usual rates and defaults are
// those of the authors' program.
namespace kolo::optimizers {

namespace {

constexpr auto advice = "validation and checkpoints have its average";

}  // namespace

struct ScheduleFreeSgd {
  double momentum = .9;

  [[nodiscard]] std::string remark() const { return advice; }
  [[nodiscard]] std::unique_ptr<FlatOptimizer> make(const WeightDecay& decay) const {
    return make_schedule_free_sgd({.momentum = momentum,
                                   .weight_decay = decay.weight,
                                   .decay_excludes_vectors = decay.excludes_vectors});
  }
};

template <typename Field>
void visit(Field& field, ScheduleFreeSgd& sgd) {
  field("momentum", sgd.momentum, fraction);
}

OptimizerEntry schedule_free_sgd() {
  auto entry =
      entry_of<ScheduleFreeSgd>("schedule_free_sgd", "Schedule-Free SGD (Defazio et al., 2024)");
  entry.usual_rate = 1;
  entry.has_own_decay = true;
  entry.averages = true;
  return entry;
}

struct ScheduleFreeAdamw {
  double beta1 = .9;
  double beta2 = .999;
  double epsilon = 1e-8;

  [[nodiscard]] std::string remark() const { return advice; }
  [[nodiscard]] std::unique_ptr<FlatOptimizer> make(const WeightDecay& decay) const {
    return make_schedule_free_adamw({.beta1 = beta1,
                                     .beta2 = beta2,
                                     .epsilon = epsilon,
                                     .weight_decay = decay.weight,
                                     .decay_excludes_vectors = decay.excludes_vectors});
  }
};

template <typename Field>
void visit(Field& field, ScheduleFreeAdamw& adamw) {
  field("beta1", adamw.beta1, fraction);
  field("beta2", adamw.beta2, fraction);
  field("epsilon", adamw.epsilon, positive);
}

OptimizerEntry schedule_free_adamw() {
  auto entry = entry_of<ScheduleFreeAdamw>("schedule_free_adamw",
                                           "Schedule-Free AdamW (Defazio et al., 2024)");
  entry.usual_rate = .0025;
  entry.has_own_decay = true;
  entry.averages = true;
  return entry;
}

}  // namespace kolo::optimizers
