#include "train/device_batches.h"

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

}  // namespace kolo
