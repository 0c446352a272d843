#include "train/batch_task.h"

#include <cstdint>
#include <numeric>

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

TrainingNumbers training_numbers(const Objective& objective, const torch::Tensor& outputs,
                                 const torch::Tensor& targets) {
  const auto loss = objective.loss(outputs, targets);
  const auto factor = objective.share.loss_factor;
  return {factor == 1 ? loss : loss * factor, metric_sums(objective, loss, outputs, targets)};
}

std::string advice_on_what_is_not_finite(bool skips) {
  const std::string advice =
      "Go on from an earlier checkpoint, where there is one (--resume, --resume best or --resume "
      "STEP), with a lower learning rate, a warm-up or training.clip_norm";
  return advice + (skips ? "" : ", or leave bad steps out with training.non_finite=skip");
}

}  // namespace kolo
