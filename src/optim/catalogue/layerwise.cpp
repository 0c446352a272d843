#include "kolo/optim/flat_optimizer.h"
#include "optim/catalogue/optimizer_settings.h"

// Those for large batches.
namespace kolo::optimizers {

struct Lars {
  double momentum = 0;
  double trust_coefficient = .001;

  [[nodiscard]] std::unique_ptr<FlatOptimizer> make(const WeightDecay& decay) const {
    return make_lars({.momentum = momentum,
                      .weight_decay = decay.weight,
                      .trust_coefficient = trust_coefficient});
  }
};

template <typename Field>
void visit(Field& field, Lars& lars) {
  field("momentum", lars.momentum, fraction);
  field("trust_coefficient", lars.trust_coefficient, positive);
}

OptimizerEntry lars() {
  auto entry = entry_of<Lars>("lars", "LARS (You et al., 2017), for large batches");
  entry.usual_rate = .01;
  entry.has_own_decay = true;
  entry.takes_whole_parameters = true;
  return entry;
}

struct Lamb {
  double beta1 = .9;
  double beta2 = .999;
  double epsilon = 1e-6;

  [[nodiscard]] std::unique_ptr<FlatOptimizer> make(const WeightDecay& decay) const {
    return make_lamb(
        {.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon, .weight_decay = decay.weight});
  }
};

template <typename Field>
void visit(Field& field, Lamb& lamb) {
  field("beta1", lamb.beta1, fraction);
  field("beta2", lamb.beta2, fraction);
  field("epsilon", lamb.epsilon, positive);
}

OptimizerEntry lamb() {
  auto entry = entry_of<Lamb>("lamb", "LAMB (You et al., 2020), for large batches");
  entry.has_own_decay = true;
  entry.takes_whole_parameters = true;
  return entry;
}

}  // namespace kolo::optimizers
