#pragma once

#include <cstddef>
#include <memory>

// Memory of a simulated accelerator, for tests of device code on machines without one. It is host
// memory, mapped twice: host code that follows the device pointer dies of SIGSEGV, as it should;
// kernels, copies and transports of the simulation use the host view of the same bytes. Needs no
// LibTorch. Thread-safe.
namespace kolo::testing::simulated {

inline constexpr int kDevices = 2;
// Alignment of pointers; CUDA's is 512.
inline constexpr std::size_t kAlignment = 4096;

// Allocates zeroed memory of a device; null for 0 bytes. A fork shares earlier memory with its
// parent.
[[nodiscard]] std::byte* allocate(std::size_t bytes, int device = 0);
// Frees what these returned, or null.
void release(void* device_pointer);

// Host view of a pointer anywhere within an allocation, or of null.
[[nodiscard]] std::byte* host_view(const void* device_pointer);
// Device that has this memory; -1: none.
[[nodiscard]] int device_of(const void* pointer);

// Bytes allocated on a device now, by which tests find leaks and second copies.
[[nodiscard]] std::size_t allocated_bytes(int device = 0);

struct Release {
  void operator()(std::byte* device_pointer) const { release(device_pointer); }
};
// Owner of device memory.
using Memory = std::unique_ptr<std::byte[], Release>;
[[nodiscard]] inline Memory make_memory(std::size_t bytes, int device = 0) {
  return Memory(allocate(bytes, device));
}

}  // namespace kolo::testing::simulated
