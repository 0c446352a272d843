#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/cuda/launch.h"

// Passes over flat memory on CUDA devices, with loads and stores as wide as they get.
namespace kolo::cuda {

// Values that are loaded or stored at once.
template <typename T, int width>
struct alignas(sizeof(T) * width) Pack {
  T values[width];
};

template <int width, typename T>
__device__ inline Pack<T, width> load(const T* from) {
  return *reinterpret_cast<const Pack<T, width>*>(from);
}

template <int width, typename T>
__device__ inline void store(T* to, const Pack<T, width>& pack) {
  *reinterpret_cast<Pack<T, width>*>(to) = pack;
}

constexpr std::size_t widest_bytes = 16;

// How a pass over buffers of one type is cut: whole packs from the element `head` on, and the
// elements around them one by one.
template <typename T>
struct Cut {
  static constexpr int width = widest_bytes / sizeof(T);
  std::size_t size = 0, head = 0, packs = 0;

  [[nodiscard]] unsigned blocks() const {
    const std::size_t rest = size - packs * width;
    return blocks_for(packs > rest ? packs : rest);
  }
};

// Cuts buffers into packs; there are none where the buffers are never aligned together.
template <typename T, std::size_t count>
Cut<T> cut(std::size_t size, const std::array<const T*, count>& buffers) {
  const auto beyond = [](const T* address) {
    return reinterpret_cast<std::uintptr_t>(address) % widest_bytes;
  };
  const std::uintptr_t first = beyond(buffers[0]);
  bool is_alike = first % sizeof(T) == 0;
  for (const T* const buffer : buffers) is_alike = is_alike && beyond(buffer) == first;
  const std::size_t head = (widest_bytes - first) % widest_bytes / sizeof(T);
  if (!is_alike || head > size) return {size, size, 0};
  return {size, head, (size - head) / Cut<T>::width};
}

// visit.operator()<width>(index) for each pack and each element around them, by all threads of a
// launch of cut.blocks().
template <typename T, typename Visit>
__device__ inline void for_each_pack(const Cut<T>& cut, const Visit& visit) {
  constexpr int width = Cut<T>::width;
  const std::size_t threads = std::size_t{gridDim.x} * blockDim.x;
  const std::size_t thread = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (std::size_t pack = thread; pack < cut.packs; pack += threads)
    visit.template operator()<width>(cut.head + pack * width);
  for (std::size_t rest = thread; rest < cut.size - cut.packs * width; rest += threads)
    visit.template operator()<1>(rest < cut.head ? rest : rest + cut.packs * width);
}

}  // namespace kolo::cuda
