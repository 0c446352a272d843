#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <torch/nn/module.h>

#include "kolo/comm/communicator.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/finite_check.h"
#include "kolo/parallel/grad_scaler.h"
#include "kolo/parallel/gradient_reducer.h"
#include "kolo/parallel/timeline.h"

namespace kolo {

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
