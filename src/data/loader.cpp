#include "kolo/data/loader.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include "data/batch_writer.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

// Queue of batches on their way to a device, copied in a stream of their own, each with an event at
// its end. Belongs to one thread at a time.
class CopiesAhead {
 public:
  // The batch that is asked for, and two ahead of it.
  static constexpr std::size_t most = 3;

  explicit CopiesAhead(const torch::Device& device)
      : device_(device),
        stream_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)) {}
  CopiesAhead(const CopiesAhead&) = delete;
  CopiesAhead& operator=(const CopiesAhead&) = delete;
  // Waits for the copies under way, which read the host's memory.
  ~CopiesAhead() {
    try {
      stream_.synchronize();
    } catch (
        ...) {  // a device that has failed copies nothing any more, and fails the next call too
    }
  }

  [[nodiscard]] const torch::Device& device() const { return device_; }
  [[nodiscard]] std::size_t size() const { return ahead_.size(); }

  // Begins to copy a batch, and keeps its memory until that is done.
  void add(Batch batch) {
    // A validation's inference mode must not stick to batches of the training.
    const c10::InferenceMode normal_tensors(false);
    const c10::StreamGuard guard(stream_);
    Source source{batch.input, batch.target, c10::Event(device_.type())};
    try {
      batch.input = copied(source.input);
      batch.target = copied(source.target);
    } catch (...) {
      stream_.synchronize();  // one of them may be under way
      throw;
    }
    source.copied.record(stream_);
    ahead_.emplace_back(std::move(batch), std::move(source));
  }

  // Takes the first batch. The thread's current stream waits for it, not the host.
  [[nodiscard]] Batch take() {
    auto [batch, source] = std::move(ahead_.front());
    ahead_.pop_front();
    const auto current = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
    source.copied.block(current);
    for (const auto& tensor : {batch.input, batch.target}) {
      if (tensor.defined()) tensor.record_stream(current);
    }
    left_.push_back(std::move(source));
    return std::move(batch);
  }

  // Releases the host's memory that has been copied.
  void hand_back() {
    std::erase_if(left_, [](const Source& source) { return source.copied.query(); });
    for (auto& [batch, source] : ahead_) {
      if (!source.copied.query()) break;  // as are all that were begun after it
      source.input.reset();
      source.target.reset();
    }
  }

  // Empties the queue.
  void drop() {
    for (auto& [batch, source] : ahead_) left_.push_back(std::move(source));
    ahead_.clear();
  }

 private:
  // Tensors that a copy reads, until its event has come.
  struct Source {
    torch::Tensor input, target;
    c10::Event copied;
  };

  // The memory belongs to the copies' stream, so that reused memory is not overwritten early.
  [[nodiscard]] torch::Tensor copied(const torch::Tensor& tensor) const {
    if (!tensor.defined()) return tensor;
    auto copy = torch::empty(tensor.sizes(), tensor.options().device(device_));
    copy.copy_(tensor, /*non_blocking=*/true);
    return copy;
  }

  torch::Device device_;
  c10::Stream stream_;
  std::deque<std::pair<Batch, Source>> ahead_;
  std::vector<Source> left_;  // of batches that are no longer in the queue
};

// The batches of an epoch, fixed when it starts.
struct Loader::Plan {
  std::int64_t epoch = 0;
  std::vector<Batch> batches;  // without tensors
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
  // Beyond the batches loaded ahead, the consumer holds one and is releasing another; with a
  // device, so many are being copied.
  constexpr std::size_t with_consumer = CopiesAhead::most;
  // No batch has more samples than the epoch, however large it may be.
  const auto largest = checked_multiply<std::int64_t>(
      std::clamp<std::int64_t>(sampler_.length(0), 1, options_.batch_size), sampler_.ranks_here());
  writer_ = std::make_unique<BatchWriter>(dataset_, largest, loaded_.size() + with_consumer);
  for (int i = 0; i < options_.workers; ++i) {
    workers_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

Loader::~Loader() {
  // Asks all at once: the threads' destructors would ask and wait for one after the other.
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
    if (sampler_.ranks_here() > 1)
      batch.part_sizes = sampler_.part_sizes_of_next(options_.batch_size);
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
  if (copies_) copies_->drop();
  may_load_.notify_all();
}

void Loader::deliver_to(const torch::Device& device) {
  if (device == (copies_ ? copies_->device() : torch::Device(torch::kCPU))) return;
  device_samples_ =
      device.is_cpu() || !options_.makes_on_device ? nullptr : dataset_->device_samples(device);
  copies_ = device.is_cpu() ? nullptr : std::make_unique<CopiesAhead>(device);
  writer_->write_for(device, device_samples_);
}

std::optional<Batch> Loader::next() {
  if (!plan_) throw Error("loader: next() was called before start_epoch()");
  if (!copies_) return next_on_host();
  copies_->hand_back();
  copy_ahead();
  if (copies_->size() > 0) return made(copies_->take());
  if (error_) std::rethrow_exception(error_);
  return std::nullopt;
}

Batch Loader::made(Batch batch) const {
  if (!device_samples_) return batch;
  const c10::InferenceMode normal_tensors(false);
  auto [input, target] = device_samples_->make(batch.input);
  batch.input = std::move(input);
  if (device_samples_->makes_targets()) batch.target = std::move(target);
  return batch;
}

// Copies further batches, without waiting for them if the next one is there. An error is kept until
// the batches before it are delivered.
void Loader::copy_ahead() {
  const auto has_more = [&] { return !error_ && delivered_ < plan_->batches.size(); };
  while (has_more() && copies_->size() < CopiesAhead::most &&
         (copies_->size() == 0 || is_loaded())) {
    try {
      copies_->add(next_on_host().value());
    } catch (...) {
      error_ = std::current_exception();
    }
  }
}

bool Loader::is_loaded() {
  if (workers_.empty()) return true;
  const std::scoped_lock lock(mutex_);
  return loaded_[delivered_ % loaded_.size()].has_value();
}

std::optional<Batch> Loader::next_on_host() {
  if (error_) std::rethrow_exception(error_);
  if (delivered_ == plan_->batches.size()) return std::nullopt;
  Loaded loaded =
      workers_.empty() ? *load(*plan_, delivered_++, [] { return true; }) : wait_for_loaded();
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
  Loaded loaded;
  try {
    loaded.batch = writer_->write(plan.batches[number], plan.epoch, is_wanted);
    if (!loaded.batch) return std::nullopt;
  } catch (...) {
    loaded.error = std::current_exception();
  }
  return loaded;
}

}  // namespace kolo
