#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "kolo/base/random.h"

namespace kolo {

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
