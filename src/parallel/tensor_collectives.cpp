#include "kolo/parallel/tensor_collectives.h"

#include <fmt/format.h>

#include "kolo/base/error.h"

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
  if (!contiguous.device().is_cpu() || !contiguous.is_contiguous()) {
    throw Error("parallel: a collective's buffer must be a contiguous tensor in CPU memory");
  }
  return {contiguous.data_ptr(), contiguous.numel(), data_type_of(contiguous.scalar_type())};
}

namespace {

// Runs an in-place collective on the tensor's memory, or on a contiguous copy that is copied back.
template <typename Function>
void in_place(const torch::Tensor& tensor, const Function& collective) {
  const torch::NoGradGuard no_gradient;
  const torch::Tensor contiguous = tensor.contiguous();
  collective(buffer_of(contiguous));
  if (!contiguous.is_same(tensor)) tensor.copy_(contiguous);
}

torch::Tensor with_dimensions(const torch::Tensor& tensor) {
  return (tensor.dim() == 0 ? tensor.reshape({1}) : tensor).contiguous();
}

}  // namespace

void all_reduce(const Communicator& communicator, const torch::Tensor& tensor, ReduceOp op) {
  in_place(tensor, [&](const Buffer& buffer) { communicator.all_reduce(buffer, op); });
}

void broadcast(const Communicator& communicator, const torch::Tensor& tensor, int root) {
  in_place(tensor, [&](const Buffer& buffer) { communicator.broadcast(buffer, root); });
}

void broadcast(const Communicator& communicator, std::span<const torch::Tensor> tensors, int root) {
  for (const torch::Tensor& tensor : tensors) broadcast(communicator, tensor, root);
}

torch::Tensor all_gather(const Communicator& communicator, const torch::Tensor& tensor) {
  const torch::NoGradGuard no_gradient;
  const torch::Tensor input = with_dimensions(tensor);
  auto shape = input.sizes().vec();
  shape.front() *= communicator.size();
  torch::Tensor output = torch::empty(shape, input.options());
  communicator.all_gather(buffer_of(input), buffer_of(output));
  return output;
}

torch::Tensor reduce_scatter(const Communicator& communicator, const torch::Tensor& tensor,
                             ReduceOp op) {
  const torch::NoGradGuard no_gradient;
  const torch::Tensor input = with_dimensions(tensor);
  auto shape = input.sizes().vec();
  if (shape.front() % communicator.size() != 0) {
    throw Error(fmt::format(
        "parallel: reduce-scatter: the first dimension, {}, is not a multiple of the {} ranks",
        shape.front(), communicator.size()));
  }
  shape.front() /= communicator.size();
  torch::Tensor output = torch::empty(shape, input.options());
  communicator.reduce_scatter(buffer_of(input), buffer_of(output), op);
  return output;
}

}  // namespace kolo
