#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/layout/spatial_plan.h"

namespace c10 {
struct Device;
}

namespace kolo {

class DeviceSamples;

// Reading of data that a dataset keeps in memory: the ranks of a node can do it together, a part
// each, into one piece of memory that they share.
struct MemoryLoad {
  std::size_t bytes = 0;
  // Reads part `part` of `parts`, once each, into `bytes` of memory, 64-byte aligned, which the
  // dataset keeps; samples can be read when all parts are there. InputError as the constructor.
  std::function<void(const std::shared_ptr<std::byte>& memory, int part, int parts)> read;
  // Advice where memory is short, if there is another way: "read crops from the file ...".
  std::string instead = {};
};

// Does the whole load in this process, into memory of its own.
void load_alone(const MemoryLoad& load);

// If `later`, returns the load for the caller to do; otherwise does it now, in this process, and
// returns none.
[[nodiscard]] std::optional<MemoryLoad> load_later_or_now(MemoryLoad load, bool later);

enum class Split { train, validation };

// Shape of every sample of a dataset.
struct SampleLayout {
  std::vector<std::int64_t> input_shape;  // float32, channel first, for example {1, 28, 28}
  std::int64_t classes = 0;  // > 0: the target is a class index (int64); 0: float32 of target_shape
  std::vector<std::int64_t> target_shape;
  // Shapes of the arrays that an input, or a target of numbers, consists of, if several: their
  // values come one after another, and input_shape is their number. Empty: one array.
  std::vector<std::vector<std::int64_t>> input_shapes = {}, target_shapes = {};

  // Numbers in one input.
  [[nodiscard]] std::int64_t input_size() const;
  // Numbers in one target: 1 for a class index.
  [[nodiscard]] std::int64_t target_size() const;
};

// Places inside a batch that one sample is written to: `label` for datasets with classes, `target`
// for others; the unused one is empty.
struct SampleSpans {
  std::span<float> input;
  std::span<std::int64_t> label;
  std::span<float> target;
};

// Samples numbered from 0. Const and thread-safe: any number of threads may read at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  [[nodiscard]] virtual const SampleLayout& layout() const = 0;
  // Writes sample `index` of `epoch`. Augmentation may depend on seed, epoch and index alone, so
  // that every rank and worker sees the same sample. Error for an index outside [0, size) and
  // places of other sizes than the layout's.
  virtual void read(std::int64_t index, std::int64_t epoch, const SampleSpans& place) const = 0;

  // Maker of the samples on a device (kolo/data/loader.h), which may outlive the dataset; null if
  // they can't be made there.
  [[nodiscard]] virtual std::shared_ptr<const DeviceSamples> device_samples(
      const c10::Device& /*device*/) const {
    return nullptr;
  }
  // Dataset of these rows of each sample that reads no more than them, for part_of_samples(); null
  // if samples can only be read whole.
  [[nodiscard]] virtual std::shared_ptr<const Dataset> part(
      std::span<const RowRange> /*rows*/) const {
    return nullptr;
  }
  // Divisor of inputs that are stored as bytes: a byte b is the number b / divisor. Unset for
  // inputs that are no bytes.
  [[nodiscard]] virtual std::optional<float> byte_divisor() const { return std::nullopt; }
  // Reads an input as its bytes, and its class. Error for inputs that are no bytes.
  virtual void read_bytes(std::int64_t index, std::span<std::uint8_t> input,
                          std::span<std::int64_t> label) const;

 protected:
  // The checks every read() begins with.
  void check_read(std::int64_t index, const SampleSpans& place, std::size_t input_size,
                  std::size_t target_size) const;
};

// Part of each sample, for ranks that share samples: rows [begin, end) of each axis of the input
// after its channels, and of a target that is a field. Reads no more than the part if the dataset
// can (NbodyDataset), otherwise the whole sample, and copies. Error for rows that samples don't
// have, and for targets of numbers with other axes.
[[nodiscard]] std::shared_ptr<const Dataset> part_of_samples(std::shared_ptr<const Dataset> whole,
                                                             std::span<const RowRange> rows);

// Some samples of another dataset, by their numbers there.
class Subset final : public Dataset {
 public:
  // Error for none, and for numbers that the other dataset lacks.
  Subset(std::shared_ptr<const Dataset> whole, std::vector<std::int64_t> samples);
  [[nodiscard]] std::int64_t size() const override { return std::ssize(samples_); }
  [[nodiscard]] const SampleLayout& layout() const override { return whole_->layout(); }
  void read(std::int64_t index, std::int64_t epoch, const SampleSpans& place) const override;
  [[nodiscard]] std::shared_ptr<const Dataset> part(std::span<const RowRange> rows) const override;
  [[nodiscard]] std::optional<float> byte_divisor() const override {
    return whole_->byte_divisor();
  }
  void read_bytes(std::int64_t index, std::span<std::uint8_t> input,
                  std::span<std::int64_t> label) const override;

 private:
  [[nodiscard]] std::int64_t chosen(std::int64_t index) const;

  std::shared_ptr<const Dataset> whole_;
  std::vector<std::int64_t> samples_;
};

// Standard normal inputs and random targets (uniform classes, or standard normal numbers), the same
// for the same (seed, index) on every rank and in every epoch: for dry runs and timing.
//
// A sample is a window, at a random place, of a ring of 2^18 normal numbers made once, so that
// reading costs a copy; samples share numbers, and larger inputs repeat themselves.
class RandomDataset final : public Dataset {
 public:
  RandomDataset(SampleLayout layout, std::int64_t size, std::uint64_t seed);

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  void read(std::int64_t index, std::int64_t epoch, const SampleSpans& place) const override;

 private:
  SampleLayout layout_;
  std::int64_t size_;
  std::uint64_t seed_;
  std::size_t input_size_;
  std::size_t target_size_;
  std::vector<float> pool_;
};

}  // namespace kolo
