// Loops of kernels use LibTorch's threads.
#include <array>
#include <thread>

#include <gtest/gtest.h>

#include "compare.h"
#include "kernels/products.h"

namespace kolo::testing {
namespace {

TEST(ForChannels, GivesEachThreadAsMany) {
#if defined(__clang__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "kolo's loops have one thread in builds by Clang and with ThreadSanitizer";
#endif
  const Threads two(2);
  std::array<std::thread::id, 2> threads{};
  for_channels(96, [&](std::int64_t first, std::int64_t count) {
    EXPECT_EQ(count, 48);
    threads.at(static_cast<std::size_t>(first / 48)) = std::this_thread::get_id();
  });
  EXPECT_NE(threads[0], std::thread::id());
  EXPECT_NE(threads[1], std::thread::id());
  EXPECT_NE(threads[0], threads[1]);
}

}  // namespace
}  // namespace kolo::testing
