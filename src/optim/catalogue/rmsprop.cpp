#include "kolo/optim/adaptive_optimizers.h"
#include "optim/catalogue/optimizer_settings.h"

namespace kolo::optimizers {

struct Rmsprop {
  double rho = .9;
  double momentum = 0;
  Epsilon epsilon{.form = EpsilonForm::keras, .of_torch = 1e-8};
  bool centered = false;

  void complete() { epsilon.complete(); }
  [[nodiscard]] std::string remark() const { return epsilon.remark(); }
  [[nodiscard]] std::unique_ptr<FlatOptimizer> make(const WeightDecay& decay) const {
    return make_rmsprop(
        with_decay(RmspropOptions{.rho = rho,
                                  .momentum = momentum,
                                  .epsilon = epsilon.value.value(),
                                  .centered = centered,
                                  .epsilon_in_root = epsilon.form == EpsilonForm::keras},
                   decay));
  }
};

template <typename Field>
void visit(Field& field, Rmsprop& rmsprop) {
  field("rho", rmsprop.rho, fraction);
  field("momentum", rmsprop.momentum, fraction);
  visit_epsilon(field, rmsprop.epsilon);
  field("centered", rmsprop.centered, AnyBool{});
}

OptimizerEntry rmsprop() {
  return entry_of<Rmsprop>("rmsprop", "RMSprop (Tieleman and Hinton, 2012)");
}

}  // namespace kolo::optimizers
