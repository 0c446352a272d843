#pragma once

#include <cstdint>
#include <vector>

#include "kolo/data/dataset.h"

namespace kolo {

// Standard normal inputs and random targets (uniform classes, or standard normal numbers), the same
// for the same (seed, index) on every rank and in every epoch. There is nothing to learn in it: it
// is for dry runs and for timing without reading files.
//
// A sample is a window of a pool of 2^18 normal numbers (1 MiB, made once) that begins at a random
// place and goes round, so that reading costs a copy; samples share numbers, and an input of more
// than 2^18 numbers repeats itself.
class RandomDataset final : public Dataset {
 public:
  // InputError for size < 1, negative classes, dimensions < 1.
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
