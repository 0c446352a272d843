#include "tensor_pool.h"

#include <utility>

namespace kolo {

TensorPool::TensorPool(std::vector<std::int64_t> shape, torch::ScalarType type, std::size_t keep)
    : shape_(std::move(shape)), type_(type), keep_(keep) {
  unused_.reserve(keep);  // so that giving back never allocates
}

torch::Tensor TensorPool::lend(std::int64_t rows) {
  // This may be the trainer's thread, whose mode must not stick to memory that outlives it.
  const c10::InferenceMode normal_tensors(false);
  auto memory = take();
  auto shape = shape_;
  shape[0] = rows;
  void* const data = memory.data_ptr();
  // A tensor of its own: whatever its holder does to its shape or to requires_grad leaves the
  // memory's own tensor alone.
  return torch::from_blob(
      data, shape,
      [memory = std::move(memory), pool = weak_from_this()](void* /*data*/) mutable {
        if (const auto alive = pool.lock()) alive->give_back(std::move(memory));
      },
      type_);
}

torch::Tensor TensorPool::take() {
  {
    const std::scoped_lock lock(mutex_);
    if (!unused_.empty()) {
      auto memory = std::move(unused_.back());
      unused_.pop_back();
      return memory;
    }
  }
  return torch::empty(shape_, type_);
}

void TensorPool::give_back(torch::Tensor memory) {
  const std::scoped_lock lock(mutex_);
  if (unused_.size() < keep_) unused_.push_back(std::move(memory));
}

}  // namespace kolo
