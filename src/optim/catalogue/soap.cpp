#include "kolo/optim/flat_optimizer.h"
#include "optim/catalogue/optimizer_settings.h"

namespace kolo::optimizers {

struct Soap {
  double beta1 = .95;
  double beta2 = .95;
  double preconditioner_beta = .95;
  double epsilon = 1e-8;
  std::int64_t precondition_every = 10;
  std::int64_t largest_side = 1024;

  [[nodiscard]] std::unique_ptr<FlatOptimizer> make(const WeightDecay& decay) const {
    return make_soap({.beta1 = beta1,
                      .beta2 = beta2,
                      .preconditioner_beta = preconditioner_beta,
                      .epsilon = epsilon,
                      .precondition_every = precondition_every,
                      .largest_side = largest_side,
                      .weight_decay = decay.weight,
                      .decay_excludes_vectors = decay.excludes_vectors});
  }
};

template <typename Field>
void visit(Field& field, Soap& soap) {
  field("beta1", soap.beta1, fraction);
  field("beta2", soap.beta2, fraction);
  field("preconditioner_beta", soap.preconditioner_beta, fraction);
  field("epsilon", soap.epsilon, positive);
  field("precondition_every", soap.precondition_every, positive.up_to(most_of_a_kind));
  field("largest_side", soap.largest_side, positive.up_to(most_of_a_kind));
}

OptimizerEntry soap() {
  auto entry = entry_of<Soap>("soap", "SOAP (Vyas et al., 2024)");
  entry.usual_rate = .003;
  entry.decouples_decay = true;
  entry.takes_whole_parameters = true;
  return entry;
}

}  // namespace kolo::optimizers
