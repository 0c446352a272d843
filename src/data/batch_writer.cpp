#include "batch_writer.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace kolo {

namespace {

bool is_free(const torch::Tensor& tensor) {
  return tensor.storage().use_count() == 1;
}

// A tensor of its own on the first samples of a buffer: what its holder does to it (shape,
// requires_grad) leaves the buffer alone, and the memory's count of users tells whether anything is
// left of it, be it a view or what autograd has saved.
torch::Tensor lend(const torch::Tensor& buffer, std::int64_t samples) {
  return buffer.narrow(0, 0, samples).variable_data();
}

std::vector<std::int64_t> batch_shape(std::int64_t batch_size,
                                      const std::vector<std::int64_t>& sample_shape) {
  std::vector<std::int64_t> shape{batch_size};
  shape.insert(shape.end(), sample_shape.begin(), sample_shape.end());
  return shape;
}

}  // namespace

BatchWriter::BatchWriter(std::shared_ptr<const Dataset> dataset, std::int64_t batch_size,
                         std::size_t keep)
    : dataset_(std::move(dataset)),
      input_size_(static_cast<std::size_t>(dataset_->layout().input_size())),
      target_size_(static_cast<std::size_t>(dataset_->layout().target_size())),
      input_shape_(batch_shape(batch_size, dataset_->layout().input_shape)),
      target_shape_(batch_shape(batch_size, dataset_->layout().classes > 0
                                                ? std::vector<std::int64_t>{}
                                                : dataset_->layout().target_shape)),
      keep_(keep) {}

BatchWriter::Buffers BatchWriter::allocate() const {
  const auto type = dataset_->layout().classes > 0 ? torch::kInt64 : torch::kFloat32;
  return {torch::empty(input_shape_, torch::kFloat32), torch::empty(target_shape_, type)};
}

Batch BatchWriter::take(std::int64_t samples) {
  // Without workers this is the trainer's thread, whose mode must not stick to tensors that outlive
  // it.
  const c10::InferenceMode normal_tensors(false);
  const torch::NoGradGuard no_gradients;
  const std::scoped_lock lock(mutex_);
  const auto free = std::find_if(kept_.begin(), kept_.end(), [](const Buffers& buffers) {
    return is_free(buffers.input) && is_free(buffers.target);
  });
  // Whoever held the memory last has read it before it is written again.
  std::atomic_thread_fence(std::memory_order_acquire);
  const Buffers buffers = free != kept_.end() ? *free : allocate();
  if (free == kept_.end() && kept_.size() < keep_) kept_.push_back(buffers);
  Batch batch;
  batch.input = lend(buffers.input, samples);
  batch.target = lend(buffers.target, samples);
  return batch;
}

std::optional<Batch> BatchWriter::write(std::span<const std::int64_t> indices, std::int64_t epoch,
                                        const std::function<bool()>& is_wanted) {
  Batch batch = take(static_cast<std::int64_t>(indices.size()));
  batch.indices.assign(indices.begin(), indices.end());
  const bool has_classes = dataset_->layout().classes > 0;
  auto* const inputs = batch.input.data_ptr<float>();
  auto* const labels = has_classes ? batch.target.data_ptr<std::int64_t>() : nullptr;
  auto* const targets = has_classes ? nullptr : batch.target.data_ptr<float>();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (!is_wanted()) return std::nullopt;
    SamplePlace place;
    place.input = {inputs + i * input_size_, input_size_};
    if (has_classes) {
      place.label = {labels + i, 1};
    } else {
      place.target = {targets + i * target_size_, target_size_};
    }
    dataset_->read(indices[i], epoch, place);
  }
  return batch;
}

}  // namespace kolo
