#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "kolo/data/dataset.h"

namespace kolo::testing {

// A sample as a dataset writes it: with a label where there are classes, else with a target.
// Numbers that it doesn't write are NaN.
struct ReadSample {
  std::vector<float> input, target;
  std::int64_t label = -1;
  bool operator==(const ReadSample&) const = default;
};

inline ReadSample read_sample(const Dataset& dataset, std::int64_t index, std::int64_t epoch = 0) {
  const auto& layout = dataset.layout();
  ReadSample sample;
  sample.input.assign(static_cast<std::size_t>(layout.input_size()), NAN);
  if (layout.classes > 0) {
    dataset.read(index, epoch, {sample.input, {&sample.label, 1}, {}});
  } else {
    sample.target.assign(static_cast<std::size_t>(layout.target_size()), NAN);
    dataset.read(index, epoch, {sample.input, {}, sample.target});
  }
  return sample;
}

// Does a load in parts, the last one first; returns the memory.
inline std::shared_ptr<std::byte> load_in_parts(const MemoryLoad& load, int parts) {
  constexpr std::align_val_t alignment{64};
  const std::shared_ptr<std::byte> memory(
      static_cast<std::byte*>(::operator new(load.bytes, alignment)),
      [](std::byte* bytes) { ::operator delete(bytes, alignment); });
  for (int part = parts - 1; part >= 0; --part) load.read(memory, part, parts);
  return memory;
}

}  // namespace kolo::testing
