#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include "kolo/parallel/gradient_reducer.h"

namespace kolo {

struct DistributedOptimizerOptions {
  ReducerOptions reducer = {};
  std::optional<double> maximum_gradient_norm = std::nullopt;  // clip_gradient_norm() in each step
  // Each step ends with the module's buffers being those of the lowest rank
  // (synchronize_buffers()).
  bool broadcast_buffers = false;
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
// goes on working with the same tensors, whose memory is now an arena's, so its state, options and
// learning-rate schedulers are as ever. The module must outlive this. Its initial parameters must
// be the same on every rank: broadcast them before the first step.
//
// The constructor is collective. Calls come from one thread.
class DistributedOptimizer {
 public:
  // What step() takes: it calls zero_grad() and backward(), and returns the loss.
  using LossClosure = std::function<torch::Tensor()>;

  // Takes any optimizer by value.
  template <typename Optimizer>
  requires std::derived_from<Optimizer, torch::optim::Optimizer> DistributedOptimizer(
      const Communicator& communicator, const torch::nn::Module& module, Optimizer optimizer,
      const DistributedOptimizerOptions& options = {})
      : DistributedOptimizer(communicator, module,
                             std::make_unique<Optimizer>(std::move(optimizer)), options) {}

  // Refers to one that must outlive this.
  template <typename Optimizer>
  requires std::derived_from<Optimizer, torch::optim::Optimizer> DistributedOptimizer(
      const Communicator& communicator, const torch::nn::Module& module,
      std::reference_wrapper<Optimizer> optimizer, const DistributedOptimizerOptions& options = {})
      : DistributedOptimizer(communicator, module,
                             std::shared_ptr<torch::optim::Optimizer>(
                                 std::shared_ptr<void>(), std::addressof(optimizer.get())),
                             options) {}

  DistributedOptimizer(const Communicator& communicator, const torch::nn::Module& module,
                       std::shared_ptr<torch::optim::Optimizer> optimizer,
                       const DistributedOptimizerOptions& options = {});
  template <typename Optimizer>
  DistributedOptimizer(const Communicator& communicator, const torch::nn::Module& module,
                       std::unique_ptr<Optimizer> optimizer,
                       const DistributedOptimizerOptions& options = {})
      : DistributedOptimizer(communicator, module,
                             std::shared_ptr<torch::optim::Optimizer>(std::move(optimizer)),
                             options) {}

  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  // Undefines all gradients of the module's parameters.
  void zero_grad();

  // While the result lives, backward() only adds to this rank's gradients.
  GradientReducer::NoSync no_sync() { return reducer_.no_sync(); }

  // Waits for the averages, clips them where asked to, and lets the optimizer step. Error, on all
  // ranks, when some rank had no backward() since the last step or lacks gradients.
  void step();

  // For optimizers that evaluate the loss several times a step (LBFGS): gradients are averaged
  // behind each call, and so is the loss, so that all ranks decide alike. Returns the optimizer's
  // result, the loss of the first call. The number of calls must not depend on the rank.
  torch::Tensor step(const LossClosure& closure);

  // The norm of the averaged gradients that the last step() clipped; nothing without
  // maximum_gradient_norm.
  [[nodiscard]] std::optional<double> gradient_norm() const { return gradient_norm_; }

  [[nodiscard]] torch::optim::Optimizer& inner() { return *optimizer_; }
  [[nodiscard]] GradientReducer& reducer() { return reducer_; }

 private:
  void finish_gradients();

  Communicator communicator_;
  const torch::nn::Module& module_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  DistributedOptimizerOptions options_;
  GradientReducer reducer_;
  std::optional<double> gradient_norm_;
};

}  // namespace kolo
