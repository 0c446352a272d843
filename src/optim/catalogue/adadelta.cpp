#include "kolo/optim/adaptive_optimizers.h"
#include "optim/catalogue/optimizer_settings.h"

namespace kolo::optimizers {

struct Adadelta {
  double rho = .95;
  double epsilon = 1e-7;

  [[nodiscard]] std::unique_ptr<FlatOptimizer> make(const WeightDecay& decay) const {
    return make_adadelta(with_decay(AdadeltaOptions{.rho = rho, .epsilon = epsilon}, decay));
  }
};

template <typename Field>
void visit(Field& field, Adadelta& adadelta) {
  field("rho", adadelta.rho, fraction);
  field("epsilon", adadelta.epsilon, positive);
}

OptimizerEntry adadelta() {
  return entry_of<Adadelta>("adadelta", "Adadelta (Zeiler, 2012), times the rate");
}

}  // namespace kolo::optimizers
