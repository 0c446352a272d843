#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <torch/types.h>

#include "kolo/data/dataset.h"
#include "kolo/sampling/sampler.h"

namespace kolo {

// Memory for one packed sample of a device's batch; spans that the dataset doesn't use are empty.
struct PackedSpans {
  std::span<std::byte> bytes;
  std::span<std::int64_t> label;
  std::span<float> target;
};

// Makes a dataset's samples on a device: the host packs what each is made of, random numbers
// included, and the device makes the whole batch, of the same bits as Dataset::read writes.
class DeviceSamples {
 public:
  virtual ~DeviceSamples() = default;
  // Size of a packed sample; a multiple of 16.
  [[nodiscard]] virtual std::size_t packed_bytes() const = 0;
  // Targets are made on the device, too, and not packed.
  [[nodiscard]] virtual bool makes_targets() const = 0;
  // Packs one sample. Like Dataset::read: any number of threads at once, the same errors.
  virtual void pack(std::int64_t index, std::int64_t epoch, const PackedSpans& place) const = 0;

  struct Made {
    torch::Tensor input, target;  // the latter only with makes_targets()
  };
  // Makes a batch of bytes [B, packed_bytes()] in the device's memory, in the thread's current
  // stream.
  [[nodiscard]] virtual Made make(const torch::Tensor& packed) const = 0;
};

struct LoaderOptions {
  std::int64_t batch_size = 64;  // samples per rank, or per virtual rank; at least 1
  int workers = 1;               // threads that load; 0: the thread that calls next()
  int prefetch = 4;        // batches loaded or loading ahead, all workers together; at least 1
  bool drop_last = false;  // leave out the last batch of an epoch when it is not full
  // Devices make samples themselves if they can (Dataset::device_samples); false: workers make all.
  bool makes_on_device = true;
};

struct Batch {
  torch::Tensor input;                // float32 [B, input_shape...]
  torch::Tensor target;               // int64 [B] for classes, else float32 [B, target_shape...]
  std::vector<std::int64_t> indices;  // which samples these are
  std::int64_t position = 0;  // the sampler's position after this batch: go on here after it
  // Numbers of samples of each rank, in this order, if the sampler stands for several; otherwise
  // empty.
  std::vector<std::int64_t> part_sizes;
};

class BatchWriter;
class CopiesAhead;

// Delivers the batches of an epoch in the sampler's order, while worker threads load the next ones
// ahead, a whole batch each, written in place. A batch is valid as long as anything holds its
// tensors or views of them; memory that nobody holds is used again. start_epoch(), deliver_to() and
// next() belong to one thread at a time.
//
// An exception of the dataset comes out of the next() that would have delivered that batch, and out
// of every later one until start_epoch(). The destructor waits for no more than the samples being
// read.
class Loader {
 public:
  // InputError for options out of range, Error when the sampler is for a dataset of another size.
  Loader(std::shared_ptr<const Dataset> dataset, DistributedSampler sampler, LoaderOptions options);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  ~Loader();

  [[nodiscard]] const Dataset& dataset() const { return *dataset_; }
  // How many batches this rank gets in an epoch that starts at `position`. With Padding::none ranks
  // may differ by one.
  [[nodiscard]] std::int64_t batches(std::int64_t position = 0) const;

  // Delivers batches on a device, made there if the dataset can (Dataset::device_samples): copied
  // from pinned memory, two ahead of the one asked for, in a stream of their own, for which the
  // caller's stream waits, not the host. By default, and for the CPU, batches are in the host's
  // memory. To be called between epochs.
  void deliver_to(const torch::Device& device);
  // Begins an epoch, leaving the one under way; must be called before next().
  void start_epoch(std::int64_t epoch, std::int64_t position = 0);
  // The next batch; none at the end of the epoch.
  [[nodiscard]] std::optional<Batch> next();

 private:
  struct Plan;
  // A loaded batch, or the error of loading it.
  struct Loaded {
    std::optional<Batch> batch;
    std::exception_ptr error;
  };

  void work(const std::stop_token& stop);
  [[nodiscard]] std::optional<Loaded> load(const Plan& plan, std::size_t number,
                                           const std::function<bool()>& is_wanted) const;
  [[nodiscard]] Loaded wait_for_loaded();
  [[nodiscard]] std::optional<Batch> next_on_host();
  [[nodiscard]] bool is_loaded();
  void copy_ahead();
  // Has the device make its samples, in the caller's stream, if it can.
  [[nodiscard]] Batch made(Batch batch) const;

  std::shared_ptr<const Dataset> dataset_;
  DistributedSampler sampler_;
  LoaderOptions options_;
  std::unique_ptr<BatchWriter> writer_;
  std::shared_ptr<const DeviceSamples> device_samples_;  // none: batches come as they are read
  std::unique_ptr<CopiesAhead> copies_;                  // none: batches stay in the host's memory
  std::exception_ptr error_;                             // ends the epoch

  std::mutex mutex_;  // guards what follows
  std::condition_variable_any may_load_;
  std::condition_variable has_loaded_;
  std::shared_ptr<const Plan> plan_;           // of this epoch
  std::vector<std::optional<Loaded>> loaded_;  // batch b waits in place b % prefetch
  std::size_t claimed_ = 0, delivered_ = 0;    // batches, of plan_
  // plan_ again, readable without the mutex: workers drop batches of older plans.
  std::atomic<const Plan*> wanted_plan_ = nullptr;
  std::vector<std::jthread> workers_;  // last: they use all of the above
};

}  // namespace kolo
