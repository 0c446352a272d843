#include "parallel/tensors/tensors.h"

#include <algorithm>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo {

DataType data_type_of(torch::ScalarType type) {
  switch (type) {
    case torch::kDouble:
      return DataType::float64;
    case torch::kFloat:
      return DataType::float32;
    case torch::kHalf:
      return DataType::float16;
    case torch::kBFloat16:
      return DataType::bfloat16;
    case torch::kLong:
      return DataType::int64;
    case torch::kInt:
      return DataType::int32;
    case torch::kShort:
      return DataType::int16;
    case torch::kChar:
      return DataType::int8;
    case torch::kByte:
      return DataType::uint8;
    case torch::kBool:
      return DataType::boolean;
    default:
      throw Error(
          fmt::format("parallel: collectives take no tensors of {}; convert to one of float64, "
                      "float32, float16, bfloat16, "
                      "int64, int32, int16, int8, uint8, bool",
                      torch::toString(type)));
  }
}

torch::ScalarType scalar_type_of(DataType type) {
  switch (type) {
    case DataType::float64:
      return torch::kDouble;
    case DataType::float32:
      return torch::kFloat;
    case DataType::float16:
      return torch::kHalf;
    case DataType::bfloat16:
      return torch::kBFloat16;
    case DataType::int64:
      return torch::kLong;
    case DataType::int32:
      return torch::kInt;
    case DataType::int16:
      return torch::kShort;
    case DataType::int8:
      return torch::kChar;
    case DataType::uint8:
      return torch::kByte;
    case DataType::boolean:
      return torch::kBool;
  }
  return torch::kFloat;
}

Buffer buffer_of(const torch::Tensor& contiguous) {
  if (!contiguous.is_contiguous()) {
    throw Error(fmt::format(
        "parallel: a collective's buffer must be a contiguous tensor; got one of {} on {} that is "
        "not; make it so with .contiguous()",
        torch::toString(contiguous.scalar_type()), contiguous.device().str()));
  }
  const auto type = data_type_of(contiguous.scalar_type());
  if (contiguous.device().is_cpu()) return {contiguous.data_ptr(), contiguous.numel(), type};
  return Buffer::on_device(contiguous.data_ptr(), contiguous.numel(), type,
                           parallel::current_stream(contiguous.device()));
}

parallel::TaskStream parallel::TaskStream::of(const torch::Tensor& tensor) {
  TaskStream result;
  const auto device = tensor.device();
  if (!device.is_cpu())
    result.stream_ = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  return result;
}

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
