#include "optim/catalogue/optimizer_settings.h"

namespace kolo::optimizers {

// Of adam and adamw.
struct Adam {
  double beta1 = .9;
  double beta2 = .999;
  Epsilon epsilon{.form = EpsilonForm::torch, .of_torch = 1e-8};
  bool amsgrad = false;

  void complete() { epsilon.complete(); }
  [[nodiscard]] std::string remark() const { return epsilon.remark(); }
  [[nodiscard]] std::unique_ptr<FlatOptimizer> make(const WeightDecay& decay) const {
    AdamOptions options{.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon.value.value()};
    options.epsilon_before_correction = epsilon.form == EpsilonForm::keras;
    options.amsgrad = amsgrad;
    return make_adam(with_decay(options, decay));
  }
};

template <typename Field>
void visit(Field& field, Adam& adam) {
  field("beta1", adam.beta1, fraction);
  field("beta2", adam.beta2, fraction);
  visit_epsilon(field, adam.epsilon);
  field("amsgrad", adam.amsgrad, AnyBool{});
}

OptimizerEntry adam() {
  return entry_of<Adam>("adam", "Adam (Kingma and Ba, 2015), AMSGrad if so wanted");
}

OptimizerEntry adamw() {
  auto entry = entry_of<Adam>("adamw", "Adam with decoupled weight decay (Loshchilov and Hutter)");
  entry.decouples_decay = true;
  return entry;
}

}  // namespace kolo::optimizers
