#include <fmt/format.h>

#include "kolo/optim/catalogue.h"
#include "settings/choice_reader.h"

namespace kolo {

const OptimizerEntry& optimizer_entry(std::string_view name) {
  return entry_named(built_in_optimizers(), name, "optim: unknown optimizer");
}

OptimizerConfig completed(OptimizerConfig optimizer) {
  const auto& entry = optimizer_entry(optimizer.name);
  optimizer.own = entry.completed(std::move(optimizer.own));
  if (!optimizer.lr) optimizer.lr = entry.usual_rate;
  return optimizer;
}

void check_optimizer(const OptimizerConfig& optimizer, const RefuseKey& refuse) {
  const auto& entry = optimizer_entry(optimizer.name);
  entry.check(optimizer.own, refuse);
  if (entry.has_own_decay && optimizer.decoupled_decay)
    refuse("decoupled_decay", fmt::format("{} has its own kind of weight decay", optimizer.name));
}

WeightDecay decay_of(const OptimizerConfig& optimizer) {
  return {optimizer.weight_decay,
          optimizer.decoupled_decay || optimizer_entry(optimizer.name).decouples_decay,
          optimizer.decay_excludes_vectors};
}

std::unique_ptr<FlatOptimizer> make_optimizer(const OptimizerConfig& optimizer,
                                              const WeightDecay& decay) {
  return optimizer_entry(optimizer.name).make(completed(optimizer).own, decay);
}

template <typename Options>
concept AdamLike = requires(Options options) {
  options.beta1;
  options.beta2;
  options.epsilon;
};

// Keys of options that have no visit() for their own type.
template <typename Field, AdamLike Options>
void visit(Field& field, Options& options) {
  field("beta1", options.beta1, fraction);
  field("beta2", options.beta2, fraction);
  field("epsilon", options.epsilon, positive);
}

template <typename Field>
void visit(Field& field, AdadeltaOptions& adadelta) {
  field("rho", adadelta.rho, fraction);
  field("epsilon", adadelta.epsilon, positive);
}

template <typename Field>
void visit(Field& field, LarsOptions& lars) {
  field("momentum", lars.momentum, fraction);
  field("trust_coefficient", lars.trust_coefficient, positive);
}

template <typename Field>
void visit(Field& field, ScheduleFreeSgdOptions& sgd) {
  field("momentum", sgd.momentum, fraction);
}

}  // namespace kolo

// Optimizers of configurations. An entry is a struct of options, perhaps with some more, and a
// visit() for its keys; where it needs them it has check() and complete() (see set_settings) and
//   std::string remark() const;
namespace kolo::optimizers {

template <ConfigStruct T, typename Options>
[[nodiscard]] OptimizerEntry entry_of(const std::string& name, const std::string& description,
                                      std::unique_ptr<FlatOptimizer> (*make)(const Options&),
                                      T defaults = {}) {
  OptimizerEntry entry{{name, description}};
  set_settings<T>(entry, std::move(defaults));
  entry.make = [make](const OwnSettings& own, const WeightDecay& decay) {
    Options options = own.as<T>();
    options.weight_decay = decay.weight;
    if constexpr (requires { options.decoupled_decay; })
      options.decoupled_decay = decay.is_decoupled;
    if constexpr (requires { options.decay_excludes_vectors; })
      options.decay_excludes_vectors = decay.excludes_vectors;
    return make(options);
  };
  if constexpr (requires(const T& settings) { settings.remark(); })
    entry.remark = [](const OwnSettings& own) { return own.as<T>().remark(); };
  return entry;
}

// An epsilon in one of two forms, whose usual values differ. Frameworks differ in it, and with it
// their results.
struct Epsilon {
  EpsilonForm form;
  double of_torch;                   // what it is in torch's form unless given
  std::optional<double> value = {};  // unset: 1e-7 in Keras's form

  [[nodiscard]] double complete() {
    if (!value) value = form == EpsilonForm::torch ? of_torch : 1e-7;
    return *value;
  }
  [[nodiscard]] std::string remark() const {
    return fmt::format("epsilon {}, added as in {}", value.value(),
                       form == EpsilonForm::keras ? "Keras" : "PyTorch");
  }
};

template <typename Field>
void visit_epsilon(Field& field, Epsilon& epsilon) {
  field("epsilon", epsilon.value, positive, Unset{"as epsilon_form has it"});
  field("epsilon_form", epsilon.form, AnyName{});
}

// Options with an epsilon in either form; `is_of_keras`: the option that says which.
template <typename Options, bool Options::*is_of_keras>
struct WithEpsilon : Options {
  Epsilon own_epsilon;

  void complete() {
    this->epsilon = own_epsilon.complete();
    this->*is_of_keras = own_epsilon.form == EpsilonForm::keras;
  }
  [[nodiscard]] std::string remark() const { return own_epsilon.remark(); }
};

struct Sgd : SgdOptions {
  void check(const RefuseKey& refuse) const {
    if (!nesterov) return;
    if (momentum == 0) refuse("nesterov", "needs a momentum greater than 0");
    if (dampening != 0) refuse("nesterov", "works without dampening only; leave dampening out");
  }
};

template <typename Field>
void visit(Field& field, Sgd& sgd) {
  field("momentum", sgd.momentum, fraction);
  field("dampening", sgd.dampening, fraction);
  field("nesterov", sgd.nesterov, AnyBool{});
}

OptimizerEntry sgd() {
  auto entry =
      entry_of<Sgd>("sgd", "stochastic gradient descent, with momentum if so wanted", make_sgd);
  entry.usual_rate = .01;
  return entry;
}

using Adam = WithEpsilon<AdamOptions, &AdamOptions::epsilon_before_correction>;

template <typename Field>
void visit(Field& field, Adam& adam) {
  field("beta1", adam.beta1, fraction);
  field("beta2", adam.beta2, fraction);
  visit_epsilon(field, adam.own_epsilon);
  field("amsgrad", adam.amsgrad, AnyBool{});
}

OptimizerEntry adam() {
  return entry_of<Adam>("adam", "Adam (Kingma and Ba, 2015), AMSGrad if so wanted", make_adam,
                        {{}, {EpsilonForm::torch, 1e-8}});
}

OptimizerEntry adamw() {
  auto entry = entry_of<Adam>("adamw", "Adam with decoupled weight decay (Loshchilov and Hutter)",
                              make_adam, {{}, {EpsilonForm::torch, 1e-8}});
  entry.decouples_decay = true;
  return entry;
}

using Rmsprop = WithEpsilon<RmspropOptions, &RmspropOptions::as_keras>;

template <typename Field>
void visit(Field& field, Rmsprop& rmsprop) {
  field("rho", rmsprop.rho, fraction);
  field("momentum", rmsprop.momentum, fraction);
  visit_epsilon(field, rmsprop.own_epsilon);
  field("centered", rmsprop.centered, AnyBool{});
}

OptimizerEntry rmsprop() {
  return entry_of<Rmsprop>("rmsprop", "RMSprop (Tieleman and Hinton, 2012)", make_rmsprop,
                           {{}, {EpsilonForm::keras, 1e-8}});
}

using Adagrad = WithEpsilon<AdagradOptions, &AdagradOptions::epsilon_in_root>;

template <typename Field>
void visit(Field& field, Adagrad& adagrad) {
  field("initial_accumulator", adagrad.initial_accumulator, not_negative);
  visit_epsilon(field, adagrad.own_epsilon);
}

OptimizerEntry adagrad() {
  return entry_of<Adagrad>("adagrad", "Adagrad (Duchi et al., 2011)", make_adagrad,
                           {{}, {EpsilonForm::keras, 1e-10}});
}

OptimizerEntry adadelta() {
  return entry_of<AdadeltaOptions>("adadelta", "Adadelta (Zeiler, 2012), times the rate",
                                   make_adadelta);
}

OptimizerEntry adamax() {
  return entry_of<AdamaxOptions>("adamax", "Adamax (Kingma and Ba, 2015)", make_adamax);
}

OptimizerEntry nadam() {
  return entry_of<NadamOptions>("nadam", "Nadam (Dozat, 2016)", make_nadam);
}

OptimizerEntry lars() {
  auto entry = entry_of<LarsOptions>("lars", "LARS (You et al., 2017), for large batches",
                                     make_lars, {.momentum = 0});
  entry.usual_rate = .01;
  entry.has_own_decay = true;
  entry.takes_whole_parameters = true;
  return entry;
}

OptimizerEntry lamb() {
  auto entry =
      entry_of<LambOptions>("lamb", "LAMB (You et al., 2020), for large batches", make_lamb);
  entry.has_own_decay = true;
  entry.takes_whole_parameters = true;
  return entry;
}

// Schedule-Free optimizers. Usual rates and defaults are those of the authors' program.
template <typename T, typename Options>
[[nodiscard]] OptimizerEntry averaging(const std::string& name, const std::string& description,
                                       std::unique_ptr<FlatOptimizer> (*make)(const Options&),
                                       double usual_rate) {
  auto entry = entry_of<T>(name, description, make);
  entry.remark = [](const OwnSettings&) { return "validation and checkpoints have its average"; };
  entry.usual_rate = usual_rate;
  entry.has_own_decay = true;
  entry.averages = true;
  return entry;
}

OptimizerEntry schedule_free_sgd() {
  return averaging<ScheduleFreeSgdOptions>(
      "schedule_free_sgd", "Schedule-Free SGD (Defazio et al., 2024)", make_schedule_free_sgd, 1);
}

OptimizerEntry schedule_free_adamw() {
  return averaging<ScheduleFreeAdamwOptions>("schedule_free_adamw",
                                             "Schedule-Free AdamW (Defazio et al., 2024)",
                                             make_schedule_free_adamw, .0025);
}

}  // namespace kolo::optimizers
