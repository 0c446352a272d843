#include "kolo/optim/adaptive_optimizers.h"
#include "optim/catalogue/optimizer_settings.h"

namespace kolo::optimizers {

struct Nadam {
  double beta1 = .9;
  double beta2 = .999;
  double epsilon = 1e-7;

  [[nodiscard]] std::unique_ptr<FlatOptimizer> make(const WeightDecay& decay) const {
    return make_nadam(
        with_decay(NadamOptions{.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon}, decay));
  }
};

template <typename Field>
void visit(Field& field, Nadam& nadam) {
  field("beta1", nadam.beta1, fraction);
  field("beta2", nadam.beta2, fraction);
  field("epsilon", nadam.epsilon, positive);
}

OptimizerEntry nadam() {
  return entry_of<Nadam>("nadam", "Nadam (Dozat, 2016)");
}

}  // namespace kolo::optimizers
