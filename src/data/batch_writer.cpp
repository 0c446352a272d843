#include "data/batch_writer.h"

#include <utility>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

TensorPool::TensorPool(std::vector<std::int64_t> shape, torch::ScalarType type, std::size_t keep)
    : shape_(std::move(shape)), type_(type), keep_(keep) {
  unused_.reserve(keep);  // so that giving back never allocates
}

torch::Tensor TensorPool::lend(std::int64_t rows) {
  // The caller's inference mode must not stick to memory that outlives it.
  const c10::InferenceMode normal_tensors(false);
  auto memory = take();
  auto shape = shape_;
  shape[0] = rows;
  void* const data = memory.tensor.data_ptr();
  // A tensor of its own, whose shape and requires_grad the holder may change.
  return torch::from_blob(
      data, shape,
      [memory = std::move(memory), pool = weak_from_this()](void* /*data*/) mutable {
        if (const auto alive = pool.lock()) alive->give_back(std::move(memory));
      },
      type_);
}

TensorPool::Memory TensorPool::take() {
  std::optional<torch::Device> device;
  {
    const std::scoped_lock lock(mutex_);
    if (!unused_.empty()) {
      auto memory = std::move(unused_.back());
      unused_.pop_back();
      return memory;
    }
    device = device_;
  }
  // Pinning creates a CUDA context; without setDevice a worker would create it on GPU 0.
  if (device) c10::impl::VirtualGuardImpl(device->type()).setDevice(*device);
  const auto options = torch::TensorOptions(type_).pinned_memory(device.has_value());
  return {torch::empty(shape_, options), device.has_value()};
}

void TensorPool::give_back(Memory memory) {
  const std::scoped_lock lock(mutex_);
  if (unused_.size() < keep_ && memory.is_pinned == device_.has_value())
    unused_.push_back(std::move(memory));
}

void TensorPool::pin_for(const torch::Device& device) {
  const std::scoped_lock lock(mutex_);
  if (!std::exchange(device_, device)) unused_.clear();
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
    : dataset_(std::move(dataset)), batch_size_(batch_size), keep_(keep) {
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

void BatchWriter::write_for(const torch::Device& device,
                            std::shared_ptr<const DeviceSamples> samples) {
  Packing packing;
  if (samples) {
    const auto bytes = static_cast<std::int64_t>(samples->packed_bytes());
    packing.pool =
        std::make_shared<TensorPool>(std::vector{batch_size_, bytes}, torch::kUInt8, keep_);
    packing.samples = std::move(samples);
  }
  // LibTorch has pinned memory for CUDA's devices.
  if (device.is_cuda()) {
    for (const auto& pool : {inputs_, targets_, packing.pool}) {
      if (pool) pool->pin_for(device);
    }
  }
  const std::scoped_lock lock(mutex_);
  packing_ = std::move(packing);
}

void BatchWriter::write_sample(const Packing& packing, const Batch& batch, std::size_t place,
                               std::int64_t epoch) const {
  const auto index = batch.indices[place];
  std::span<std::int64_t> label;
  std::span<float> target;
  if (batch.target.defined()) {
    if (has_classes_)
      label = {batch.target.data_ptr<std::int64_t>() + place, 1};
    else
      target = {batch.target.data_ptr<float>() + place * target_size_, target_size_};
  }
  if (packing.samples) {
    const auto bytes = packing.samples->packed_bytes();
    auto* const all = static_cast<std::byte*>(batch.input.data_ptr());
    packing.samples->pack(index, epoch, {{all + place * bytes, bytes}, label, target});
  } else {
    auto* const all = batch.input.data_ptr<float>();
    dataset_->read(index, epoch, {{all + place * input_size_, input_size_}, label, target});
  }
}

std::optional<Batch> BatchWriter::write(Batch batch, std::int64_t epoch,
                                        const std::function<bool()>& is_wanted) {
  const auto packing = [&] {
    const std::scoped_lock lock(mutex_);
    return packing_;
  }();
  const auto samples = std::ssize(batch.indices);
  batch.input = packing.samples ? packing.pool->lend(samples) : inputs_->lend(samples);
  if (!packing.samples || !packing.samples->makes_targets()) batch.target = targets_->lend(samples);
  for (std::size_t i = 0; i < batch.indices.size(); ++i) {
    if (!is_wanted()) return std::nullopt;
    try {
      write_sample(packing, batch, i, epoch);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}; remove or replace it", error.what()));
    }
  }
  return batch;
}

}  // namespace kolo
