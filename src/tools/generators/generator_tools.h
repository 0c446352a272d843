#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "kolo/base/random.h"

namespace kolo {

// Interpolation with cubic splines through the points (R. Keys, "Cubic convolution interpolation
// for digital image processing", 1981, a = -1/2).
struct CubicTaps {
  std::int64_t first = 0;  // of the four points
  std::array<float, 4> weights{};
};

// The four points around `place`, where point i is at place i.
[[nodiscard]] CubicTaps cubic_taps(float place);

// A plane of rows x columns numbers, resampled at the given places (in rows and columns) to
// row_places x column_places numbers. Points beyond the edges are those of the edge.
[[nodiscard]] std::vector<float> resample(std::span<const float> plane, std::int64_t rows,
                                          std::int64_t columns, std::span<const float> row_places,
                                          std::span<const float> column_places);

// Smooth noise around 1/2 over height x width pixels: numbers uniform in [0, 1) at the corners of
// cells, `cells` of them along each axis, cubic between them.
[[nodiscard]] std::vector<float> value_noise(CounterRandom& random, float row_cells,
                                             float column_cells, std::int64_t height,
                                             std::int64_t width);

// Calls work(index) once for every index of [0, count), on `threads` threads, the calling one among
// them. After an exception no more are begun, and the first one is thrown here.
inline void for_each_index(std::int64_t count, int threads,
                           const std::function<void(std::int64_t)>& work) {
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto take_turns = [&] {
    try {
      for (auto index = next++; index < count; index = next++) work(index);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (int thread = 1; thread < threads; ++thread) others.emplace_back(take_turns);
    take_turns();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace kolo
