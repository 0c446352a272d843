#include "data/batch_writer.h"

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
  void* const data = memory.tensor.data_ptr();
  // A tensor of its own: whatever its holder does to its shape or to requires_grad leaves the
  // memory's own tensor alone.
  return torch::from_blob(
      data, shape,
      [memory = std::move(memory), pool = weak_from_this()](void* /*data*/) mutable {
        if (const auto alive = pool.lock()) alive->give_back(std::move(memory));
      },
      type_);
}

TensorPool::Memory TensorPool::take() {
  bool is_pinned = false;
  {
    const std::scoped_lock lock(mutex_);
    if (!unused_.empty()) {
      auto memory = std::move(unused_.back());
      unused_.pop_back();
      return memory;
    }
    is_pinned = is_pinned_;
  }
  return {torch::empty(shape_, torch::TensorOptions(type_).pinned_memory(is_pinned)), is_pinned};
}

void TensorPool::give_back(Memory memory) {
  const std::scoped_lock lock(mutex_);
  if (unused_.size() < keep_ && memory.is_pinned == is_pinned_)
    unused_.push_back(std::move(memory));
}

void TensorPool::pin() {
  const std::scoped_lock lock(mutex_);
  if (std::exchange(is_pinned_, true)) return;
  unused_.clear();
}

namespace {

std::vector<std::int64_t> batch_shape(std::int64_t batch_size,
                                      const std::vector<std::int64_t>& sample_shape) {
  std::vector<std::int64_t> shape{batch_size};
  shape.insert(shape.end(), sample_shape.begin(), sample_shape.end());
  return shape;
}

}  // namespace

BatchWriter::BatchWriter(std::shared_ptr<const Dataset> dataset, std::int64_t batch_size,
                         std::size_t keep)
    : dataset_(std::move(dataset)) {
  const auto& layout = dataset_->layout();
  has_classes_ = layout.classes > 0;
  input_size_ = static_cast<std::size_t>(layout.input_size());
  target_size_ = static_cast<std::size_t>(layout.target_size());
  inputs_ = std::make_shared<TensorPool>(batch_shape(batch_size, layout.input_shape),
                                         torch::kFloat32, keep);
  targets_ = has_classes_
                 ? std::make_shared<TensorPool>(batch_shape(batch_size, {}), torch::kInt64, keep)
                 : std::make_shared<TensorPool>(batch_shape(batch_size, layout.target_shape),
                                                torch::kFloat32, keep);
}

void BatchWriter::pin() {
  inputs_->pin();
  targets_->pin();
}

std::optional<Batch> BatchWriter::write(std::span<const std::int64_t> indices, std::int64_t epoch,
                                        const std::function<bool()>& is_wanted) {
  const auto samples = static_cast<std::int64_t>(indices.size());
  Batch batch;
  batch.input = inputs_->lend(samples);
  batch.target = targets_->lend(samples);
  batch.indices.assign(indices.begin(), indices.end());
  auto* const inputs = batch.input.data_ptr<float>();
  auto* const labels = has_classes_ ? batch.target.data_ptr<std::int64_t>() : nullptr;
  auto* const targets = has_classes_ ? nullptr : batch.target.data_ptr<float>();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (!is_wanted()) return std::nullopt;
    SamplePlace place;
    place.input = {inputs + i * input_size_, input_size_};
    if (has_classes_) {
      place.label = {labels + i, 1};
    } else {
      place.target = {targets + i * target_size_, target_size_};
    }
    dataset_->read(indices[i], epoch, place);
  }
  return batch;
}

}  // namespace kolo
