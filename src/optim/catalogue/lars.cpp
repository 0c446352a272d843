#include "kolo/optim/layerwise_optimizers.h"
#include "optim/catalogue/optimizer_settings.h"

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
  return entry;
}

}  // namespace kolo::optimizers
