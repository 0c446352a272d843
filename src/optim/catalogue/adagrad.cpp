#include "kolo/optim/adaptive_optimizers.h"
#include "optim/catalogue/optimizer_settings.h"

namespace kolo::optimizers {

struct Adagrad {
  double initial_accumulator = .1;
  Epsilon epsilon{.form = EpsilonForm::keras, .of_torch = 1e-10};

  void complete() { epsilon.complete(); }
  [[nodiscard]] std::string remark() const { return epsilon.remark(); }
  [[nodiscard]] std::unique_ptr<FlatOptimizer> make(const WeightDecay& decay) const {
    return make_adagrad(
        with_decay(AdagradOptions{.initial_accumulator = initial_accumulator,
                                  .epsilon = epsilon.value.value(),
                                  .epsilon_in_root = epsilon.form == EpsilonForm::keras},
                   decay));
  }
};

template <typename Field>
void visit(Field& field, Adagrad& adagrad) {
  field("initial_accumulator", adagrad.initial_accumulator, not_negative);
  visit_epsilon(field, adagrad.epsilon);
}

OptimizerEntry adagrad() {
  return entry_of<Adagrad>("adagrad", "Adagrad (Duchi et al., 2011)");
}

}  // namespace kolo::optimizers
