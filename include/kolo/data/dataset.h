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

// Data that a dataset keeps in memory and has not read yet: several ranks of a node can read it
// together, a part each, into one piece of memory that they share.
struct MemoryLoad {
  std::size_t bytes = 0;
  // Reads part `part` of `parts` into so many bytes of memory, 64-byte aligned, which the dataset
  // keeps and reads samples from when all parts are there. Once for a part. InputError as the
  // dataset's constructor.
  std::function<void(const std::shared_ptr<std::byte>& memory, int part, int parts)> read;
  // How the dataset does without so much memory, where it can: "read crops from the file ...".
  std::string instead = {};
};

// Reads all of it into memory of this process alone.
void load_alone(const MemoryLoad& load);

enum class Split { train, validation };

// Shape of every sample of a dataset.
struct SampleLayout {
  std::vector<std::int64_t> input_shape;  // float32, channel first, for example {1, 28, 28}
  std::int64_t classes = 0;  // > 0: the target is a class index (int64); 0: float32 of target_shape
  std::vector<std::int64_t> target_shape;
  // Shapes of the arrays that an input, or a target of numbers, is made of, if of several. Their
  // values come one after another, and the shape of the whole is their number alone. Empty: it is
  // one array.
  std::vector<std::vector<std::int64_t>> input_parts = {}, target_parts = {};

  // Numbers in one input.
  [[nodiscard]] std::int64_t input_size() const;
  // Numbers in one target: 1 for a class index.
  [[nodiscard]] std::int64_t target_size() const;
};

// Places inside a batch that one sample is written to. `label` holds one number for datasets with
// classes, `target` the target of the others; the one that is not used is empty.
struct SamplePlace {
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
  // Writes sample `index` as it is in `epoch` (augmentation may depend on seed, epoch and index, on
  // nothing else, so that every rank and every worker sees the same sample). Throws Error for an
  // index outside [0, size) or places of other sizes than the layout's.
  virtual void read(std::int64_t index, std::int64_t epoch, const SamplePlace& place) const = 0;

  // Maker of the samples on a device (kolo/data/loader.h), which may outlive the dataset; null
  // where they can't be made there.
  [[nodiscard]] virtual std::shared_ptr<const DeviceSamples> device_samples(
      const c10::Device& device) const;
  // The same samples, of which no more than these rows are read: see part_of_samples(), which asks
  // here. Null where a sample is read as a whole in any case.
  [[nodiscard]] virtual std::shared_ptr<const Dataset> part(std::span<const RowRange> rows) const;
  // The divisor of inputs that are bytes, of which each stands for its quotient by it.
  [[nodiscard]] virtual std::optional<float> byte_divisor() const { return std::nullopt; }
  // Such an input's bytes, and its class. Error where there are none.
  virtual void read_bytes(std::int64_t index, std::span<std::uint8_t> input,
                          std::span<std::int64_t> label) const;

 protected:
  // The checks every read() begins with.
  void check_read(std::int64_t index, const SamplePlace& place, std::size_t input_size,
                  std::size_t target_size) const;
};

// The rows of each sample that a rank has where several share a sample: [begin, end) along each
// axis of the input after its channels, and of the target's, where that is a field. The layout is
// that of the part. Costs what is read: no more than the part where the dataset can do that
// (NbodyDataset), the whole sample and a copy otherwise. Error for rows that samples don't have,
// and for targets of numbers with other axes.
[[nodiscard]] std::shared_ptr<const Dataset> part_of_samples(std::shared_ptr<const Dataset> whole,
                                                             std::span<const RowRange> rows);

// Some samples of another dataset. InputError unless 1 <= count <= its size.
class Subset final : public Dataset {
 public:
  // The first ones, or evenly spread ones, for data that lies class by class.
  enum class Choice { first, spread };

  Subset(std::shared_ptr<const Dataset> whole, std::int64_t count, Choice choice = Choice::first);
  [[nodiscard]] std::int64_t size() const override { return count_; }
  [[nodiscard]] const SampleLayout& layout() const override { return whole_->layout(); }
  void read(std::int64_t index, std::int64_t epoch, const SamplePlace& place) const override;
  [[nodiscard]] std::shared_ptr<const Dataset> part(std::span<const RowRange> rows) const override;
  [[nodiscard]] std::optional<float> byte_divisor() const override {
    return whole_->byte_divisor();
  }
  void read_bytes(std::int64_t index, std::span<std::uint8_t> input,
                  std::span<std::int64_t> label) const override;

 private:
  [[nodiscard]] std::int64_t chosen(std::int64_t index) const;

  std::shared_ptr<const Dataset> whole_;
  std::int64_t count_;
  Choice choice_;
};

// Standard normal inputs and random targets (uniform classes, or standard normal numbers), the same
// for the same (seed, index) on every rank and in every epoch. There is nothing to learn in it: it
// is for dry runs and for timing without reading files.
//
// A sample is a window of a pool of 2^18 normal numbers (1 MiB, made once) that begins at a random
// place and goes round, so that reading costs a copy; samples share numbers, and an input of more
// than 2^18 numbers repeats itself.
class RandomDataset final : public Dataset {
 public:
  RandomDataset(SampleLayout layout, std::int64_t size, std::uint64_t seed);

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  void read(std::int64_t index, std::int64_t epoch, const SamplePlace& place) const override;

 private:
  SampleLayout layout_;
  std::int64_t size_;
  std::uint64_t seed_;
  std::size_t input_size_;
  std::size_t target_size_;
  std::vector<float> pool_;
};

}  // namespace kolo
