#include "parallel/pipeline/payload_shape.h"

#include <cstddef>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo::parallel {

PayloadShape::PayloadShape(const StagePayload& payload) {
  for (const auto& tensor : payload) {
    Shape shape;
    if (tensor.defined()) {
      shape = {true, tensor.requires_grad(), tensor.scalar_type(), tensor.sizes().vec(),
               tensor.strides().vec()};
    }
    tensors_.push_back(std::move(shape));
  }
}

std::vector<std::int64_t> PayloadShape::words() const {
  std::vector<std::int64_t> words{static_cast<std::int64_t>(tensors_.size())};
  for (const auto& tensor : tensors_) {
    words.insert(words.end(), {tensor.is_defined ? 1 : 0, tensor.needs_gradient ? 1 : 0,
                               static_cast<std::int64_t>(data_type_of(tensor.type)),
                               static_cast<std::int64_t>(tensor.sizes.size())});
    words.insert(words.end(), tensor.sizes.begin(), tensor.sizes.end());
    words.insert(words.end(), tensor.strides.begin(), tensor.strides.end());
  }
  return words;
}

PayloadShape PayloadShape::from_words(std::span<const std::int64_t> words) {
  const auto take = [&](std::int64_t count) {
    if (count < 0 || static_cast<std::size_t>(count) > words.size())
      throw Error("parallel: pipeline: a payload's description is cut off; this is a bug");
    const auto taken = words.first(static_cast<std::size_t>(count));
    words = words.subspan(taken.size());
    return std::vector<std::int64_t>(taken.begin(), taken.end());
  };
  PayloadShape result;
  for (auto left = take(1).front(); left > 0; --left) {
    const auto head = take(4);
    Shape shape{head[0] != 0, head[1] != 0, scalar_type_of(static_cast<DataType>(head[2])),
                take(head[3]), take(head[3])};
    result.tensors_.push_back(std::move(shape));
  }
  return result;
}

std::vector<bool> PayloadShape::need_gradients() const {
  std::vector<bool> needs;
  for (const auto& tensor : tensors_) needs.push_back(tensor.needs_gradient);
  return needs;
}

StagePayload PayloadShape::allocate(const torch::Device& device) const {
  StagePayload payload;
  for (const auto& tensor : tensors_) {
    payload.push_back(tensor.is_defined
                          ? torch::empty_strided(tensor.sizes, tensor.strides,
                                                 torch::TensorOptions(tensor.type).device(device))
                          : torch::Tensor());
  }
  return payload;
}

std::string PayloadShape::describe() const {
  std::vector<std::string> texts;
  for (const auto& tensor : tensors_) {
    texts.push_back(
        tensor.is_defined
            ? fmt::format("{} [{}] of strides [{}]{}", name_of(data_type_of(tensor.type)),
                          fmt::join(tensor.sizes, ", "), fmt::join(tensor.strides, ", "),
                          tensor.needs_gradient ? " with a gradient" : "")
            : "none");
  }
  return fmt::format("{} tensor{}{}{}", texts.size(), texts.size() == 1 ? "" : "s",
                     texts.empty() ? "" : ": ", fmt::join(texts, "; "));
}

torch::Tensor without_gaps(const torch::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_non_overlapping_and_dense()) return tensor;
  return tensor.contiguous(tensor.suggest_memory_format());
}

torch::Tensor as_row(const torch::Tensor& tensor) {
  return tensor.as_strided({tensor.numel()}, {1});
}

}  // namespace kolo::parallel
