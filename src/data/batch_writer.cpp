#include "batch_writer.h"

#include <utility>
#include <vector>

namespace kolo {

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
