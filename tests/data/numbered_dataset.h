#pragma once

#include <cstdint>
#include <functional>

#include "kolo/data/loader.h"

namespace kolo::testing {

// Samples that tell which they are: input (index, epoch, index), target the index, as a class or as
// two numbers.
class NumberedDataset : public Dataset {
 public:
  explicit NumberedDataset(std::int64_t size, bool has_classes = true) : size_(size) {
    layout_.input_shape = {3, 1};
    layout_.classes = has_classes ? size : 0;
    layout_.target_shape = {2};
  }
  std::int64_t size() const override { return size_; }
  const SampleLayout& layout() const override { return layout_; }
  void read(std::int64_t index, std::int64_t epoch, const SampleSpans& place) const override {
    check_read(index, place, 3, layout_.classes > 0 ? 1 : 2);
    before(index);
    place.input[0] = place.input[2] = static_cast<float>(index);
    place.input[1] = static_cast<float>(epoch);
    if (layout_.classes > 0) {
      place.label[0] = index;
    } else {
      place.target[0] = place.target[1] = static_cast<float>(index);
    }
  }
  // Happens before a sample is read.
  std::function<void(std::int64_t)> before = [](std::int64_t) {};

 private:
  SampleLayout layout_;
  std::int64_t size_;
};

inline bool holds_its_samples(const Batch& batch, std::int64_t epoch) {
  const auto indices = torch::tensor(batch.indices, torch::kInt64);
  const auto numbers = indices.to(torch::kFloat32);
  const auto samples = static_cast<std::int64_t>(batch.indices.size());
  const auto expected =
      torch::stack({numbers, torch::full_like(numbers, static_cast<double>(epoch)), numbers}, 1)
          .view({samples, 3, 1});
  return torch::equal(batch.input, expected) && torch::equal(batch.target, indices);
}

}  // namespace kolo::testing
