#include <cmath>

#include "kolo/parallel/gradient_norm.h"
#include "kolo/parallel/tensor_collectives.h"
#include "kolo/parallel/training_step.h"
#include "parallel/tensors/tensor_passes.h"

// The use of averaged gradients in a step: scale, clip, leave out, update.
namespace kolo {

// Each bucket as soon as it is reduced, while later ones are still on their way.
void TrainingStep::update(double learning_rate, std::int64_t step) {
  const auto& timeline = settings_.timeline;
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket) {
    const auto number = static_cast<std::int64_t>(bucket);
    auto phase = timeline.span("wait for bucket", "bucket", number);
    reducer_.wait(bucket);
    phase = timeline.span("update bucket", "bucket", number);
    optimizer_->update(bucket, learning_rate, step);
  }
  const auto phase = timeline.span("finish step");
  reducer_.finish();
  optimizer_->finish();
}

// All buckets at the end, for what must be known of the whole gradient first.
torch::Tensor TrainingStep::update_together(double learning_rate, std::int64_t step,
                                            const torch::Tensor& sums) {
  auto phase = settings_.timeline.span("wait for buckets");
  reducer_.finish();
  phase = settings_.timeline.span("update");
  const torch::NoGradGuard no_gradient;
  // A sharded optimizer is told on the host what to use of the gradients, for which a device is
  // waited for.
  return arena_->device().is_cpu() || optimizer_->is_sharded()
             ? update_on_host(learning_rate, step, sums)
             : update_on_device(learning_rate, step, sums);
}

torch::Tensor TrainingStep::update_on_host(double learning_rate, std::int64_t step,
                                           const torch::Tensor& sums) {
  // A scale that is too large shows in gradients only; a loss that is not finite has other reasons.
  const bool checks_loss = skips_non_finite() && sums.numel() > 0;
  const bool is_finite = !may_skip() || ((!checks_loss || std::isfinite(sums[0].item<double>())) &&
                                         all_finite(deciding(), *arena_));
  if (scaler_) {
    if (is_finite) scaler_->unscale(*arena_);
    scaler_->update(is_finite);
  }
  if (is_finite && settings_.clip_norm > 0) {
    const double norm = std::sqrt(squared_norm().item<double>());
    optimizer_->scale_gradients(clip_factor(norm, settings_.clip_norm));
  }
  if (is_finite) update_all(learning_rate, step, {});
  if (!may_skip()) return {};
  return torch::full({1}, is_finite ? 0 : 1, sums.options().dtype(torch::kInt));
}

torch::Tensor TrainingStep::update_on_device(double learning_rate, std::int64_t step,
                                             const torch::Tensor& sums) {
  const GradientUse use{factor_on_device(), left_out_on_device(sums)};
  if (scaler_) scaler_->update(use.left_out);
  update_all(learning_rate, step, use);
  return use.left_out;
}

void TrainingStep::update_all(double learning_rate, std::int64_t step, const GradientUse& use) {
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket)
    optimizer_->update(bucket, learning_rate, step, use);
  optimizer_->finish();
}

// All ranks are told what one sees: gradients that are not all-reduced may differ.
torch::Tensor TrainingStep::left_out_on_device(const torch::Tensor& sums) const {
  if (!may_skip()) return {};
  auto found = torch::zeros({1}, torch::TensorOptions(torch::kInt).device(arena_->device()));
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket)
    parallel::find_non_finite(arena_->flat_gradients(bucket), found);
  if (skips_non_finite() && sums.numel() > 0)
    found.logical_or_(sums.narrow(0, 0, 1).isfinite().logical_not());
  if (deciding().size() > 1) {
    const auto ranks = world_ ? *world_ : arena_->gradient_communicator(communicator_);
    ranks.all_reduce(buffer_of(found), ReduceOp::max, {.name = "finite gradients"});
  }
  return found;
}

// Gradients are divided by the loss scale first: that of this step, which is no longer scaler_'s
// after scaler_->update().
torch::Tensor TrainingStep::factor_on_device() const {
  const auto scale = scaler_ ? scaler_->scale_tensor().reciprocal() : torch::Tensor();
  if (settings_.clip_norm <= 0) return scale;
  const auto norm = squared_norm().sqrt();
  if (!scaler_) return clip_factor(norm, settings_.clip_norm);
  return clip_factor(norm * scale, settings_.clip_norm) * scale;
}

// Gradients that several ranks hold alike count once.
torch::Tensor TrainingStep::squared_norm() const {
  auto squares = optimizer_->squared_norm();
  if (!world_) return squares;
  world_->all_reduce(buffer_of(squares), ReduceOp::sum, {.name = "gradient norm"});
  return squares.div_(communicator_.size());
}

}  // namespace kolo
