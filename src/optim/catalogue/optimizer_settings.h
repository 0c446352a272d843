#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kolo/optim/catalogue.h"
#include "settings/choice_reader.h"

// What entries of the catalogue share. An entry is a struct of settings with a visit() for its keys
// and
//   std::unique_ptr<FlatOptimizer> make(const WeightDecay& decay) const;
// and, where it needs them, check() and complete() (see set_settings) and
//   std::string remark() const;
namespace kolo::optimizers {

template <ConfigStruct T>
[[nodiscard]] OptimizerEntry entry_of(const std::string& name, const std::string& description) {
  OptimizerEntry entry{{name, description}};
  set_settings<T>(entry);
  entry.make = [](const OwnSettings& own, const WeightDecay& decay) {
    return own.as<T>().make(decay);
  };
  if constexpr (requires(const T& settings) { settings.remark(); })
    entry.remark = [](const OwnSettings& own) { return own.as<T>().remark(); };
  return entry;
}

template <typename Options>
[[nodiscard]] Options with_decay(Options options, const WeightDecay& decay) {
  options.weight_decay = decay.weight;
  options.decoupled_decay = decay.is_decoupled;
  options.decay_excludes_vectors = decay.excludes_vectors;
  return options;
}

// Of optimizers that have both forms of epsilon, whose usual value differs.
struct Epsilon {
  EpsilonForm form;
  double of_torch;                   // what it is in torch's form unless given
  std::optional<double> value = {};  // unset: 1e-7 in Keras's form

  void complete() {
    if (!value) value = form == EpsilonForm::torch ? of_torch : 1e-7;
  }
  // Frameworks differ in it, and with it their results.
  [[nodiscard]] std::string remark() const;
};

template <typename Field>
void visit_epsilon(Field& field, Epsilon& epsilon) {
  field("epsilon", epsilon.value, positive, Unset{"as epsilon_form has it"});
  field("epsilon_form", epsilon.form, AnyName{});
}

}  // namespace kolo::optimizers
