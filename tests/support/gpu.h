#pragma once

#include <cstdlib>
#include <string_view>

namespace kolo::testing {

// KOLO_TEST_DEVICE=cuda in the environment: tests of devices are to run on a GPU
// (scripts/test-gpu), and fail where there is none.
[[nodiscard]] inline bool is_gpu_wanted() {
  const char* const wanted = std::getenv("KOLO_TEST_DEVICE");
  return wanted != nullptr && std::string_view(wanted) == "cuda";
}

}  // namespace kolo::testing

// In a test, or its SetUp(), that needs a GPU.
#define KOLO_SKIP_WITHOUT_GPU()                                              \
  if (!torch::cuda::is_available()) {                                        \
    if (::kolo::testing::is_gpu_wanted()) FAIL() << "LibTorch finds no GPU"; \
    GTEST_SKIP() << "this machine has no GPU";                               \
  }                                                                          \
  static_assert(true)
