#include "parallel/tensors/tensor_fusion.h"

#include <algorithm>

#include "kolo/parallel/tensor_buffer.h"

namespace kolo {

std::vector<FusedTensors> fuse_by_type(torch::TensorList tensors) {
  std::vector<FusedTensors> all;
  std::vector<torch::ScalarType> types;
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    const auto type = tensors[index].scalar_type();
    (void)data_type_of(type);  // refuses what can't travel
    const auto place = std::find(types.begin(), types.end(), type) - types.begin();
    if (static_cast<std::size_t>(place) == types.size()) {
      types.push_back(type);
      all.emplace_back();
    }
    all[static_cast<std::size_t>(place)].indices.push_back(index);
  }
  for (FusedTensors& fused : all) {
    std::vector<torch::Tensor> parts;
    for (const std::size_t index : fused.indices) parts.push_back(tensors[index].reshape({-1}));
    fused.flat = parts.size() == 1 ? parts.front().contiguous() : torch::cat(parts);
  }
  return all;
}

void unfuse(const FusedTensors& fused, torch::TensorList tensors) {
  std::int64_t begin = 0;
  for (const std::size_t index : fused.indices) {
    const torch::Tensor& tensor = tensors[index];
    const torch::Tensor part = fused.flat.narrow(0, begin, tensor.numel());
    if (part.data_ptr() != tensor.data_ptr()) tensor.copy_(part.view(tensor.sizes()));
    begin += tensor.numel();
  }
}

torch::Tensor as_rows(const torch::Tensor& tensor) {
  return (tensor.dim() == 0 ? tensor.reshape({1}) : tensor).contiguous();
}

}  // namespace kolo
