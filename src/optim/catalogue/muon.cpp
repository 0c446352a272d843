#include <fmt/format.h>

#include "kolo/optim/flat_optimizer.h"
#include "optim/catalogue/optimizer_settings.h"

namespace kolo::optimizers {

struct Muon {
  double momentum = .95;
  bool nesterov = true;
  std::int64_t iterations = 5;
  double epsilon = 1e-7;
  MuonAdjustment adjust = MuonAdjustment::original;
  bool hidden_only = true;
  std::optional<double> adamw_rate_ratio;
  double adamw_beta1 = .9;
  double adamw_beta2 = .95;
  double adamw_epsilon = 1e-10;

  // Jordan's rates are 0.02 and 0.0003; adjusted to AdamW's steps, one rate does for both.
  void complete() {
    if (!adamw_rate_ratio) adamw_rate_ratio = adjust == MuonAdjustment::original ? .015 : 1;
  }
  [[nodiscard]] std::string remark() const {
    return fmt::format("vectors{} by AdamW with {:.4g} times its rate",
                       hidden_only ? " and the first and last layer" : "",
                       adamw_rate_ratio.value());
  }
  [[nodiscard]] std::unique_ptr<FlatOptimizer> make(const WeightDecay& decay) const {
    return make_muon({.momentum = momentum,
                      .nesterov = nesterov,
                      .iterations = static_cast<int>(iterations),
                      .epsilon = epsilon,
                      .adjust = adjust,
                      .weight_decay = decay.weight,
                      .decay_excludes_vectors = decay.excludes_vectors,
                      .hidden_only = hidden_only,
                      .adamw_rate_ratio = adamw_rate_ratio.value(),
                      .adamw_beta1 = adamw_beta1,
                      .adamw_beta2 = adamw_beta2,
                      .adamw_epsilon = adamw_epsilon});
  }
};

template <typename Field>
void visit(Field& field, Muon& muon) {
  field("momentum", muon.momentum, fraction);
  field("nesterov", muon.nesterov, AnyBool{});
  field("iterations", muon.iterations, positive.up_to(100));
  field("epsilon", muon.epsilon, positive);
  field("adjust", muon.adjust, AnyName{});
  field("hidden_only", muon.hidden_only, AnyBool{});
  field("adamw_rate_ratio", muon.adamw_rate_ratio, not_negative, Unset{"as adjust has it"});
  field("adamw_beta1", muon.adamw_beta1, fraction);
  field("adamw_beta2", muon.adamw_beta2, fraction);
  field("adamw_epsilon", muon.adamw_epsilon, positive);
}

OptimizerEntry muon() {
  auto entry = entry_of<Muon>("muon", "Muon (Jordan et al., 2024), AdamW for what is no matrix");
  entry.usual_rate = .02;
  entry.decouples_decay = true;
  entry.takes_whole_parameters = true;
  entry.looks_at_place = true;
  return entry;
}

}  // namespace kolo::optimizers
