#include "train/batch_task.h"

#include <cstdint>
#include <numeric>

#include "kolo/base/checked.h"
#include "kolo/base/random.h"

namespace kolo {

namespace {

// From memory that the device reads by itself, which LibTorch does not hand out again before it has
// been read.
torch::Tensor copied(const torch::Tensor& tensor, const torch::Device& device) {
  if (tensor.device() == device) return tensor;
  const bool is_cuda = device.is_cuda();
  return (is_cuda ? tensor.pin_memory() : tensor).to(device, /*non_blocking=*/is_cuda);
}

}  // namespace

torch::Device device_of(const torch::nn::Module& network) {
  for (const auto& parameter : network.parameters()) return parameter.device();
  return torch::kCPU;
}

Batch moved_to(const torch::Device& device, Batch batch) {
  batch.input = copied(batch.input, device);
  batch.target = copied(batch.target, device);
  return batch;
}

namespace {

// Kernels may round otherwise where memory begins elsewhere in a cache line.
torch::Tensor as_its_own(const torch::Tensor& samples) {
  constexpr std::uintptr_t alignment = 64;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(samples.data_ptr()) % alignment == 0;
  return is_aligned ? samples : samples.clone();
}

}  // namespace

Batch part_of(const Batch& batch, std::size_t part) {
  if (batch.shares.empty()) return batch;
  const auto place = static_cast<std::ptrdiff_t>(part);
  const auto first =
      std::accumulate(batch.shares.begin(), batch.shares.begin() + place, std::int64_t{0});
  const auto count = batch.shares[part];
  Batch result{as_its_own(batch.input.narrow(0, first, count)),
               as_its_own(batch.target.narrow(0, first, count)),
               {},
               batch.position,
               {}};
  if (!batch.indices.empty())
    result.indices.assign(batch.indices.begin() + first, batch.indices.begin() + first + count);
  return result;
}

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
  const auto factor = objective_->share.loss_factor;
  return {factor == 1 ? loss : loss * factor, metric_sums(*objective_, loss, outputs, targets)};
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
