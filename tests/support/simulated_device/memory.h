#pragma once

#include <cstddef>
#include <memory>

// The memory of a simulated accelerator, for tests of device code on machines without one. It is
// the host's, mapped twice: the device pointer, which the code under test gets, may be neither read
// nor written, so host code that follows it dies of SIGSEGV as it should; the host view is where
// those who play the device (kernels, copies, a transport) find the same bytes. Nothing here needs
// LibTorch. Thread-safe.
namespace kolo::testing::simulated {

inline constexpr int kDevices = 2;
// Pointers are multiples of this, as CUDA's are of 512.
inline constexpr std::size_t kAlignment = 4096;

// New memory of one device, all zeros; null for 0 bytes. What a process allocates after a fork is
// its own, what it had before it shares with its parent.
[[nodiscard]] std::byte* allocate(std::size_t bytes, int device = 0);
// Nothing for null, otherwise for what these returned.
void release(void* device_pointer);

// The same bytes where they may be touched. The pointer may lie anywhere within an allocation, or
// be null.
[[nodiscard]] std::byte* host_view(const void* device_pointer);
// The device whose memory this is; -1 if it is none's.
[[nodiscard]] int device_of(const void* pointer);

// Bytes that are allocated on a device now: what tests compare to find leaks and second copies.
[[nodiscard]] std::size_t allocated_bytes(int device = 0);

struct Release {
  void operator()(std::byte* device_pointer) const { release(device_pointer); }
};
// Device memory with an owner.
using Memory = std::unique_ptr<std::byte[], Release>;
[[nodiscard]] inline Memory make_memory(std::size_t bytes, int device = 0) {
  return Memory(allocate(bytes, device));
}

}  // namespace kolo::testing::simulated
