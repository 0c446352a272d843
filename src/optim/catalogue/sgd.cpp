#include "optim/catalogue/optimizer_settings.h"

namespace kolo::optimizers {

struct Sgd {
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;

  void check(const RefuseKey& refuse) const {
    if (!nesterov) return;
    if (momentum == 0) refuse("nesterov", "needs a momentum greater than 0");
    if (dampening != 0) refuse("nesterov", "works without dampening only; leave dampening out");
  }
  [[nodiscard]] std::unique_ptr<FlatOptimizer> make(const WeightDecay& decay) const {
    return make_sgd(with_decay(
        SgdOptions{.momentum = momentum, .dampening = dampening, .nesterov = nesterov}, decay));
  }
};

template <typename Field>
void visit(Field& field, Sgd& sgd) {
  field("momentum", sgd.momentum, fraction);
  field("dampening", sgd.dampening, fraction);
  field("nesterov", sgd.nesterov, AnyBool{});
}

OptimizerEntry sgd() {
  auto entry = entry_of<Sgd>("sgd", "stochastic gradient descent, with momentum if so wanted");
  entry.usual_rate = .01;
  return entry;
}

}  // namespace kolo::optimizers
