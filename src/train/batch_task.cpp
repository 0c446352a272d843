#include "train/batch_task.h"

#include "kolo/base/checked.h"
#include "kolo/base/random.h"

namespace kolo {

namespace {

// Of the seed: dropout has the ranks' numbers.
constexpr std::uint32_t mixup_stream = 0xFFFFFFFE;

}  // namespace

BatchTask::BatchTask(const Objective& objective, const Batch& batch, const Mixing& mixing,
                     std::int64_t steps_before)
    : objective_(&objective), batch_{batch.input, batch.target, {}, 1} {
  if (mixing.alpha <= 0) return;
  CounterRandom random(derive_seed(mixing.seed, mixup_stream, 0),
                       narrow<std::uint32_t>(mixing.replica), narrow<std::uint64_t>(steps_before));
  batch_ = mix(batch.input, batch.target, mixing.alpha, random);
}

BatchTask::Result BatchTask::measure(const torch::Tensor& outputs) const {
  const bool is_mixed = batch_.partner_targets.defined();
  const auto loss = is_mixed ? mixed_loss(objective_->loss, outputs, batch_)
                             : objective_->loss(outputs, batch_.targets);
  // A mixed sample counts as right when it is taken for what there is more of in it.
  const auto& targets = batch_.share >= .5 ? batch_.targets : batch_.partner_targets;
  return {loss_for_backward(*objective_, loss), metric_sums(*objective_, loss, outputs, targets)};
}

BatchTask BatchTask::part(std::int64_t first, std::int64_t samples) const {
  auto part = *this;
  part.batch_.inputs = batch_.inputs.narrow(0, first, samples);
  part.batch_.targets = batch_.targets.narrow(0, first, samples);
  if (batch_.partner_targets.defined())
    part.batch_.partner_targets = batch_.partner_targets.narrow(0, first, samples);
  return part;
}

}  // namespace kolo
