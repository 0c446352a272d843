#include "kolo/optim/flat_optimizer.h"
#include "optim/catalogue/optimizer_settings.h"

// Those of Keras, besides Adam, that have a rate for each element.
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

// Of Adam's two relatives.
struct Moments {
  double beta1 = .9;
  double beta2 = .999;
  double epsilon = 1e-7;
};

template <typename Field>
void visit(Field& field, Moments& moments) {
  field("beta1", moments.beta1, fraction);
  field("beta2", moments.beta2, fraction);
  field("epsilon", moments.epsilon, positive);
}

struct Adamax : Moments {
  [[nodiscard]] std::unique_ptr<FlatOptimizer> make(const WeightDecay& decay) const {
    return make_adamax(
        with_decay(AdamaxOptions{.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon}, decay));
  }
};

OptimizerEntry adamax() {
  return entry_of<Adamax>("adamax", "Adamax (Kingma and Ba, 2015)");
}

struct Nadam : Moments {
  [[nodiscard]] std::unique_ptr<FlatOptimizer> make(const WeightDecay& decay) const {
    return make_nadam(
        with_decay(NadamOptions{.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon}, decay));
  }
};

OptimizerEntry nadam() {
  return entry_of<Nadam>("nadam", "Nadam (Dozat, 2016)");
}

}  // namespace kolo::optimizers
