#include "support/simulated_device/memory.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kolo/base/error.h"
#include "support/process.h"

namespace kolo::testing::simulated {
namespace {

constexpr int kSegmentationFault = 128 + SIGSEGV;

// How a process ends that does this, also under a sanitizer that has a handler of its own.
int end_of(const std::function<void()>& action) {
  const auto program = [&] {
    std::signal(SIGSEGV, SIG_DFL);
    action();
    return 0;
  };
  return run_in_fork(program).exit_code;
}

TEST(SimulatedMemory, KillsHostCodeThatReadsOrWritesIt) {
  const Memory memory = make_memory(100);
  volatile auto* const bytes = reinterpret_cast<volatile unsigned char*>(memory.get());
  EXPECT_EQ(end_of([&] { (void)bytes[0]; }), kSegmentationFault);
  EXPECT_EQ(end_of([&] { (void)bytes[99]; }), kSegmentationFault);
  EXPECT_EQ(end_of([&] { bytes[0] = 1; }), kSegmentationFault);
  EXPECT_EQ(end_of([&] { host_view(memory.get())[99] = std::byte{1}; }), 0);
}

TEST(SimulatedMemory, IsZeroAndKeepsWhatTheDeviceWrites) {
  const Memory memory = make_memory(10'000);
  std::byte* const view = host_view(memory.get());
  for (int i = 0; i < 10'000; ++i) EXPECT_EQ(view[i], std::byte{0}) << i;
  std::memset(view, 7, 10'000);
  EXPECT_EQ(host_view(memory.get() + 9'999), view + 9'999);
  EXPECT_EQ(*host_view(memory.get() + 9'999), std::byte{7});
}

TEST(SimulatedMemory, IsAligned) {
  for (const std::size_t bytes : {1, 511, 4096, 4097}) {
    const Memory memory = make_memory(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % kAlignment, 0U);
  }
}

TEST(SimulatedMemory, KnowsItsDevice) {
  const Memory first = make_memory(8, 0);
  const Memory second = make_memory(8, 1);
  EXPECT_EQ(device_of(first.get()), 0);
  EXPECT_EQ(device_of(second.get()), 1);
  EXPECT_EQ(device_of(second.get() + 7), 1);
  const int host = 0;
  EXPECT_EQ(device_of(&host), -1);
  EXPECT_EQ(device_of(nullptr), -1);
  EXPECT_EQ(device_of(host_view(first.get())), -1);
}

TEST(SimulatedMemory, IsGoneOnceReleased) {
  const std::size_t before = allocated_bytes(1);
  std::byte* const pointer = allocate(1'000, 1);
  EXPECT_EQ(allocated_bytes(1), before + 1'000);
  release(pointer);
  EXPECT_EQ(allocated_bytes(1), before);
  EXPECT_EQ(device_of(pointer), -1);
  EXPECT_THROW(release(pointer), Error);
}

TEST(SimulatedMemory, RefusesPointersThatAreNotTheDevices) {
  int host = 0;
  EXPECT_THROW((void)host_view(&host), Error);
  EXPECT_THROW(release(&host), Error);
  const Memory memory = make_memory(8);
  EXPECT_THROW(release(memory.get() + 1), Error);
  EXPECT_THROW((void)allocate(8, kDevices), Error);
  EXPECT_THROW((void)allocate(8, -1), Error);
}

TEST(SimulatedMemory, OfNoBytesIsNull) {
  EXPECT_EQ(allocate(0), nullptr);
  EXPECT_EQ(host_view(nullptr), nullptr);
  EXPECT_NO_THROW(release(nullptr));
}

TEST(SimulatedMemory, EndsWhereItEnds) {
  const auto program = [] {
    std::signal(SIGBUS, SIG_DFL);
    const Memory memory = make_memory(kAlignment);
    reinterpret_cast<volatile unsigned char*>(host_view(memory.get()))[kAlignment] = 1;
    return 0;
  };
  EXPECT_EQ(run_in_fork(program).exit_code, 128 + SIGBUS);
}

TEST(SimulatedMemory, ServesSeveralThreads) {
  const std::size_t before = allocated_bytes();
  std::atomic<int> mistakes = 0;
  const auto work = [&](int own) {
    for (int i = 1; i <= 200; ++i) {
      const auto bytes = static_cast<std::size_t>(i) * 100;
      const Memory memory = make_memory(bytes);
      std::memset(host_view(memory.get()), own, bytes);
      if (*host_view(memory.get() + bytes - 1) != static_cast<std::byte>(own)) ++mistakes;
    }
  };
  std::vector<std::thread> threads;
  for (int own = 1; own <= 4; ++own) threads.emplace_back(work, own);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(mistakes, 0);
  EXPECT_EQ(allocated_bytes(), before);
}

}  // namespace
}  // namespace kolo::testing::simulated
