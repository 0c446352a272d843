#include "kolo/optim/layerwise_optimizers.h"
#include "optim/catalogue/optimizer_settings.h"

namespace kolo::optimizers {

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
  return entry;
}

}  // namespace kolo::optimizers
