#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include "kolo/parallel/gradient_reducer.h"
#include "kolo/parallel/trained_modules.h"

namespace kolo {

namespace parallel {
class OptionGroups;
}

struct DistributedOptimizerOptions {
  ReducerOptions reducer = {};
  std::optional<double> clip_norm = std::nullopt;  // clip_gradients() in each step
  // Each step ends with the module's buffers being those of the lowest rank
  // (synchronize_buffers()).
  bool broadcast_buffers = false;
  bool broadcast_parameters = true;  // at the start, rank 0's; buffers and frozen ones as well
};

// An optimizer of torch::optim that steps with gradients averaged over the ranks:
//
//   kolo::DistributedOptimizer optimizer(communicator, *model,
//                                        torch::optim::SGD(model->parameters(), .1));
//   optimizer.zero_grad();
//   loss.backward();   // averages begin here
//   optimizer.step();
//
// The optimizer must have been made from exactly the module's trainable parameters, in any groups
// (Error otherwise, which names what is missing or too much); frozen ones may be among them. It
// goes on working with the same tensors, whose memory is now an arena's, so its state and options
// are as ever. The module must outlive this; several, and tensors of none, are TrainedModules.
// Parameters begin as rank 0's. Ranks that step with different learning rates get an Error.
//
// This is a torch::optim::Optimizer itself, for schedulers and functions that take one: a parameter
// group's options may be changed here or in inner(), and hold for both from the next call of either
// on (where both were changed, this one's); no group can be added. State is the inner one's;
// torch::save() and load() are of it, and write what they write without kolo.
//
// The constructor is collective. Calls come from one thread.
class DistributedOptimizer : public torch::optim::Optimizer {
 public:
  // Takes any optimizer by value, or by a std::unique_ptr or shared_ptr.
  template <typename Optimizer>
  requires std::derived_from<Optimizer, torch::optim::Optimizer> DistributedOptimizer(
      const Communicator& communicator, const TrainedModules& modules, Optimizer optimizer,
      const DistributedOptimizerOptions& options = {})
      : DistributedOptimizer(communicator, modules,
                             std::make_unique<Optimizer>(std::move(optimizer)), options) {}

  // Refers to one that must outlive this.
  template <typename Optimizer>
  requires std::derived_from<Optimizer, torch::optim::Optimizer> DistributedOptimizer(
      const Communicator& communicator, const TrainedModules& modules,
      std::reference_wrapper<Optimizer> optimizer, const DistributedOptimizerOptions& options = {})
      : DistributedOptimizer(communicator, modules,
                             std::shared_ptr<torch::optim::Optimizer>(
                                 std::shared_ptr<void>(), std::addressof(optimizer.get())),
                             options) {}

  DistributedOptimizer(const Communicator& communicator, const TrainedModules& modules,
                       std::shared_ptr<torch::optim::Optimizer> optimizer,
                       const DistributedOptimizerOptions& options = {});

  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;
  ~DistributedOptimizer() override;

  // Undefines all gradients of the module's parameters, or makes them zero.
  void zero_grad(bool set_to_none = true) { reducer_.clear_gradients(set_to_none); }

  // While the result lives, backward() only adds to this rank's gradients.
  [[nodiscard]] GradientReducer::NoSync no_sync() { return reducer_.no_sync(); }

  // Waits for the averages, to look at or change them between backward() and step(), which takes
  // them as they are.
  void finish();
  // finish(), and clip_gradient_norm(): returns the norm before.
  double clip_gradients(double maximum_norm);

  // Waits for the averages, clips them where asked to, and lets the optimizer step. Error, on all
  // ranks, when some rank had no backward() since the last step or lacks gradients. Averages that
  // finish() has made already are taken as they are; or zero_grad(), on all ranks, discards them,
  // and step() changes nothing.
  //
  // With a closure, which calls zero_grad() and backward() and returns the loss, for optimizers
  // that evaluate it several times per step (LBFGS): gradients are averaged after each call, and so
  // is the loss, so that all ranks decide alike. Returns the optimizer's result, the loss of the
  // first call. The number of calls must not depend on the rank.
  torch::Tensor step(LossClosure closure = nullptr) override;

  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

  // The norm of the averaged gradients before they were last clipped.
  [[nodiscard]] std::optional<double> gradient_norm() const { return gradient_norm_; }

  // The optimizer that it was made with.
  [[nodiscard]] torch::optim::Optimizer& inner();
  // The inner optimizer's groups as they are now.
  [[nodiscard]] std::vector<torch::optim::OptimizerParamGroup>& param_groups();
  [[nodiscard]] decltype(auto) state() { return optimizer_->state(); }
  [[nodiscard]] GradientReducer& reducer() { return reducer_; }

 private:
  void meet() const;
  void tell_rates();
  void finish_gradients();

  Communicator communicator_;
  TrainedModules modules_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::unique_ptr<parallel::OptionGroups> groups_;  // of this and of the inner one
  DistributedOptimizerOptions options_;
  GradientReducer reducer_;
  std::optional<double> gradient_norm_;
};

}  // namespace kolo
