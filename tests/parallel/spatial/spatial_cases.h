#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kolo/base/random.h"
#include "kolo/parallel/device_mesh.h"
#include "support/numbers.h"

namespace kolo::testing {

// All ways to share a sample among the ranks along up to three axes; without trailing axes of 1.
inline std::vector<std::vector<std::int64_t>> spatial_lengths(std::int64_t ranks) {
  std::vector<std::vector<std::int64_t>> all;
  for (std::int64_t first = 1; first <= ranks; ++first) {
    if (ranks % first != 0) continue;
    const auto left = ranks / first;
    for (std::int64_t second = 1; second <= left; ++second) {
      if (left % second != 0) continue;
      std::vector<std::int64_t> lengths = {first, second, left / second};
      while (!lengths.empty() && lengths.back() == 1) lengths.pop_back();
      all.push_back(lengths);
    }
  }
  return all;
}

// Odd and even lengths, some so small that a layer can't be cut.
inline std::vector<std::int64_t> random_lengths(CounterRandom& random, const DeviceMesh& mesh,
                                                std::size_t axes, std::int64_t least = 1) {
  std::vector<std::int64_t> lengths;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const auto ranks = mesh.length(spatial_axes[axis]);
    const std::int64_t length = ranks * (1 + random.below(6)) + random.below(3);
    lengths.push_back(std::max(length, least));
  }
  return lengths;
}

// Calls check(mesh, number of axes, random numbers) for the ways to share samples of one to three
// axes.
template <typename Check>
void on_meshes(const Communicator& communicator, const Check& check) {
  std::uint64_t number = 0;
  for (const auto& lengths : spatial_lengths(communicator.size())) {
    const DeviceMesh mesh(communicator, {.data = 1, .spatial = lengths});
    for (std::size_t axes = std::max<std::size_t>(1, lengths.size()); axes <= 3; ++axes) {
      // Many ranks have many meshes: only those that cut all axes are checked, to save time.
      if (communicator.size() > 4 && axes > lengths.size()) continue;
      CounterRandom random(11, 2, ++number);
      check(mesh, axes, random);
    }
  }
}

}  // namespace kolo::testing
