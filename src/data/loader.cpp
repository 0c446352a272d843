#include "kolo/data/loader.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <torch/types.h>

#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/data/dataset.h"

namespace kolo {

// Lends CPU tensors of one type and shape (but for the first dimension) whose memory is used again
// once the last tensor, view or autograd node that refers to it is gone. Thread-safe; what is lent
// may outlive the pool. Owned by a shared_ptr.
class TensorPool : public std::enable_shared_from_this<TensorPool> {
 public:
  // Keeps the memory of up to `keep` tensors that nobody uses.
  TensorPool(std::vector<std::int64_t> shape, torch::ScalarType type, std::size_t keep);

  // A contiguous tensor, not initialized, with `rows` (up to the shape's) in its first dimension.
  [[nodiscard]] torch::Tensor lend(std::int64_t rows);

 private:
  [[nodiscard]] torch::Tensor take();
  void give_back(torch::Tensor memory);

  std::vector<std::int64_t> shape_;
  torch::ScalarType type_;
  std::size_t keep_;
  std::mutex mutex_;
  std::vector<torch::Tensor> unused_;
};

// Writes samples in place into the tensors of a batch, whose memory it uses again when nobody holds
// it. Thread-safe.
class BatchWriter {
 public:
  // Keeps the memory of up to `keep` batches that nobody uses.
  BatchWriter(std::shared_ptr<const Dataset> dataset, std::int64_t batch_size, std::size_t keep);

  // Loads these samples, at most batch_size. Asks before each sample whether the batch is still
  // wanted; if not, returns none. Throws what the dataset throws.
  [[nodiscard]] std::optional<Batch> write(std::span<const std::int64_t> indices,
                                           std::int64_t epoch,
                                           const std::function<bool()>& is_wanted);

 private:
  std::shared_ptr<const Dataset> dataset_;
  bool has_classes_;
  std::size_t input_size_;
  std::size_t target_size_;
  std::shared_ptr<TensorPool> inputs_, targets_;
};

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

// The batches of an epoch, fixed when it starts.
struct Loader::Plan {
  struct PlannedBatch {
    std::vector<std::int64_t> indices;
    std::int64_t position = 0;
  };
  std::int64_t epoch = 0;
  std::vector<PlannedBatch> batches;
};

namespace {

LoaderOptions checked(const LoaderOptions& options) {
  const auto check = [](const char* name, std::int64_t value, std::int64_t least,
                        std::int64_t most) {
    if (value >= least && value <= most) return;
    throw InputError(fmt::format("loader: {} is {}, expected {} to {}", name, value, least, most));
  };
  check("the batch size", options.batch_size, 1, std::numeric_limits<std::int32_t>::max());
  check("the number of workers", options.workers, 0, 1024);
  check("the number of batches to prefetch", options.prefetch, 1, 65536);
  return options;
}

}  // namespace

Loader::Loader(std::shared_ptr<const Dataset> dataset, DistributedSampler sampler,
               LoaderOptions options)
    : dataset_(std::move(dataset)),
      sampler_(std::move(sampler)),
      options_(checked(options)),
      loaded_(static_cast<std::size_t>(options.prefetch)) {
  if (dataset_->size() != sampler_.dataset_size()) {
    throw Error(fmt::format("loader: the dataset has {} samples, its sampler is for {}",
                            dataset_->size(), sampler_.dataset_size()));
  }
  // Besides what is loaded ahead, the consumer holds one batch and is about to drop another.
  constexpr std::size_t with_consumer = 2;
  // No batch has more samples than the epoch, however large it may be.
  const auto largest = std::clamp<std::int64_t>(sampler_.length(0), 1, options_.batch_size);
  writer_ = std::make_unique<BatchWriter>(dataset_, largest, loaded_.size() + with_consumer);
  for (int i = 0; i < options_.workers; ++i) {
    workers_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

Loader::~Loader() {
  // All at once: each thread's own destructor would ask and wait for one after the other.
  for (auto& worker : workers_) worker.request_stop();
}

std::int64_t Loader::batches(std::int64_t position) const {
  const auto samples = sampler_.length(position);
  return samples / options_.batch_size +
         (!options_.drop_last && samples % options_.batch_size != 0 ? 1 : 0);
}

void Loader::start_epoch(std::int64_t epoch, std::int64_t position) {
  sampler_.start_epoch(epoch, position);
  auto plan = std::make_shared<Plan>();
  plan->epoch = epoch;
  plan->batches.resize(static_cast<std::size_t>(batches(position)));
  for (auto& batch : plan->batches) {
    batch.indices = sampler_.next(options_.batch_size);
    batch.position = sampler_.position();
  }
  std::vector<std::optional<Loaded>> left_over(loaded_.size());
  {
    const std::scoped_lock lock(mutex_);
    plan_ = std::move(plan);
    wanted_plan_.store(plan_.get(), std::memory_order_relaxed);
    loaded_.swap(left_over);
    claimed_ = delivered_ = 0;
  }
  error_ = nullptr;
  may_load_.notify_all();
}

std::optional<Batch> Loader::next() {
  if (!plan_) throw Error("loader: next() was called before start_epoch()");
  if (error_) std::rethrow_exception(error_);
  if (delivered_ == plan_->batches.size()) return std::nullopt;
  const Stopwatch waited;
  Loaded loaded =
      workers_.empty() ? *load(*plan_, delivered_++, [] { return true; }) : wait_for_loaded();
  wait_seconds_ += waited.seconds();
  if (loaded.error) {
    error_ = loaded.error;
    std::rethrow_exception(error_);
  }
  return std::move(loaded.batch);
}

Loader::Loaded Loader::wait_for_loaded() {
  std::unique_lock lock(mutex_);
  auto& place = loaded_[delivered_ % loaded_.size()];
  has_loaded_.wait(lock, [&] { return place.has_value(); });
  Loaded loaded = std::move(*std::exchange(place, std::nullopt));
  ++delivered_;
  lock.unlock();
  may_load_.notify_one();
  return loaded;
}

void Loader::work(const std::stop_token& stop) {
  const auto can_claim = [this] {
    return plan_ && claimed_ < plan_->batches.size() && claimed_ < delivered_ + loaded_.size();
  };
  std::unique_lock lock(mutex_);
  while (may_load_.wait(lock, stop, can_claim) && !stop.stop_requested()) {
    const auto plan = plan_;
    const auto number = claimed_++;
    lock.unlock();
    auto loaded = load(*plan, number, [&] {
      return !stop.stop_requested() && wanted_plan_.load(std::memory_order_relaxed) == plan.get();
    });
    lock.lock();
    if (!loaded || plan != plan_) continue;
    loaded_[number % loaded_.size()] = std::move(loaded);
    if (number == delivered_) has_loaded_.notify_one();
  }
}

std::optional<Loader::Loaded> Loader::load(const Plan& plan, std::size_t number,
                                           const std::function<bool()>& is_wanted) const {
  const auto& planned = plan.batches[number];
  Loaded loaded;
  try {
    loaded.batch = writer_->write(planned.indices, plan.epoch, is_wanted);
    if (!loaded.batch) return std::nullopt;
    loaded.batch->position = planned.position;
  } catch (...) {
    loaded.error = std::current_exception();
  }
  return loaded;
}

}  // namespace kolo
