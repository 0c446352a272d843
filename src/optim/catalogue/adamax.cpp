#include "kolo/optim/adaptive_optimizers.h"
#include "optim/catalogue/optimizer_settings.h"

namespace kolo::optimizers {

struct Adamax {
  double beta1 = .9;
  double beta2 = .999;
  double epsilon = 1e-7;

  [[nodiscard]] std::unique_ptr<FlatOptimizer> make(const WeightDecay& decay) const {
    return make_adamax(
        with_decay(AdamaxOptions{.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon}, decay));
  }
};

template <typename Field>
void visit(Field& field, Adamax& adamax) {
  field("beta1", adamax.beta1, fraction);
  field("beta2", adamax.beta2, fraction);
  field("epsilon", adamax.epsilon, positive);
}

OptimizerEntry adamax() {
  return entry_of<Adamax>("adamax", "Adamax (Kingma and Ba, 2015)");
}

}  // namespace kolo::optimizers
