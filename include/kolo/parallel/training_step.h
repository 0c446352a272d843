#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/checks.h"
#include "kolo/parallel/gradient_reducer.h"
#include "kolo/parallel/parameter_arena.h"
#include "kolo/parallel/timeline.h"

namespace kolo {

// PyTorch's numbers (torch.cuda.amp.GradScaler).
struct LossScaleOptions {
  double initial = 65536;
  double growth = 2;  // after so many good steps one after another
  std::int64_t growth_interval = 2000;
  double backoff = .5;  // after a step whose gradients overflow
};

// A dynamic loss scale (Micikevicius et al., "Mixed precision training", 2018): gradients in fp16
// are lost below 6e-8 and overflow above 65504, so the loss is multiplied by a number that keeps
// them in between, and gradients are divided by it before they are used. It grows until they
// overflow; then the step is left out, and it shrinks.
//
// With several ranks: each scales its own loss, gradients are averaged scaled, and all divide by
// the same number, because all decide alike which steps are left out (see FiniteCheck). Powers of
// two leave the digits of gradients as they are.
class GradScaler {
 public:
  // InputError for numbers that make no sense: not above 0, a growth below 1, a backoff above 1.
  explicit GradScaler(const LossScaleOptions& options = {});

  [[nodiscard]] double scale() const { return state_.scale; }
  // What to call backward() on.
  [[nodiscard]] torch::Tensor scaled(const torch::Tensor& loss) const { return loss * scale(); }
  // Divides all gradients of the arena by the scale: one pass. After they are averaged, and before
  // update().
  void unscale(const ParameterArena& arena) const;
  // To be called for every step, on all ranks with the same answer: whether the step was made.
  void update(bool was_finite);

  // For checkpoints: the scale and what leads to its next change.
  struct State {
    double scale = 1;
    std::int64_t good_steps = 0;  // since the last change
  };
  [[nodiscard]] const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  LossScaleOptions options_;
  State state_;
};

struct TrainingStepOptions {
  BucketLimits buckets;
  ReducerOptions reducer;
  StepSharing sharing;      // not without communication
  double maximum_norm = 0;  // above 0: of the averaged gradient, which is scaled down to it
  // Steps whose loss or averaged gradients are not finite are left out on all ranks: no parameter
  // and no buffer has anything of them. Error after many in a row (FiniteCheck). Costs a pass over
  // the gradients and a copy of the buffers, and the buckets' updates no longer overlap the
  // communication of later ones.
  bool skip_non_finite = false;
  // Scales the loss (see GradScaler), as training in fp16 needs it. Steps whose gradients overflow
  // are left out in any case. Costs two passes over the gradients, and the overlap of updates.
  std::optional<LossScaleOptions> loss_scale;
  // Is told of forward, backward, each bucket's wait and update.
  Timeline timeline;
};

// A training step over all ranks: forward, backward with overlapped averaging of the gradients, one
// fused pass of the optimizer for each bucket as soon as it is averaged, and a few numbers that the
// ranks add up meanwhile. Where the whole gradient must be known first (clipping, leaving out what
// is not finite), all buckets are updated at the end.
//
// For loops of one's own that know where their samples come from; kolo's Trainer is one. Every rank
// has one of the same network and options, and makes the same steps.
class TrainingStep {
 public:
  // The network's parameters and buffers become rank 0's. Collective.
  TrainingStep(Communicator communicator, std::shared_ptr<torch::nn::Module> network,
               std::shared_ptr<const FlatOptimizer> optimizer,
               const TrainingStepOptions& options = {});

  // What a forward pass has come to.
  struct Forward {
    torch::Tensor loss;  // to call backward() on: the mean over this rank's samples
    // To be added up over the ranks; the same number of them on each. The first one tells whether
    // the loss is finite; without any, only gradients are looked at.
    std::vector<double> sums;
  };
  struct Outcome {
    std::vector<double> sums;  // of all ranks
    bool is_made = true;       // false: left out, on all ranks
  };

  // Makes step number `step`, from 1 on. Collective.
  Outcome make(const std::function<Forward()>& forward, double learning_rate, std::int64_t step);

  [[nodiscard]] const std::shared_ptr<ParameterArena>& arena() const { return arena_; }
  [[nodiscard]] ArenaOptimizer& optimizer() { return optimizer_; }
  [[nodiscard]] const ArenaOptimizer& optimizer() const { return optimizer_; }
  [[nodiscard]] GradientReducer& reducer() { return reducer_; }
  [[nodiscard]] const GradientReducer& reducer() const { return reducer_; }
  // Null without a loss scale.
  [[nodiscard]] GradScaler* scaler() { return scaler_ ? &*scaler_ : nullptr; }
  [[nodiscard]] const GradScaler* scaler() const { return scaler_ ? &*scaler_ : nullptr; }

 private:
  void update(double learning_rate, std::int64_t step);
  // False: the step was left out. `loss`: of all ranks.
  [[nodiscard]] bool update_together(double learning_rate, std::int64_t step, double loss);
  [[nodiscard]] bool may_skip() const;

  Communicator communicator_;
  std::shared_ptr<torch::nn::Module> network_;
  TrainingStepOptions options_;
  std::shared_ptr<ParameterArena> arena_;
  ArenaOptimizer optimizer_;
  GradientReducer reducer_;
  FiniteCheck finite_check_;
  std::optional<GradScaler> scaler_;
};

}  // namespace kolo
