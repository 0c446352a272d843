// Passes over the memory of CUDA devices in a build without CUDA.
#include <functional>
#include <vector>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "parallel/kernels.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo {
namespace {

TEST(DeviceKernelsLeftOut, AreErrorsThatSayHowToBuild) {
  using namespace parallel;
  const std::vector<std::function<void()>> passes = {
      [] { add_squares_on_device<float>(nullptr, {}, {}, nullptr); },
      [] { add_squares_on_device<double>(nullptr, {}, {}, nullptr); },
      [] { find_all_bits_on_device<std::uint16_t>({}, 0, nullptr, nullptr); },
      [] { find_all_bits_on_device<std::uint32_t>({}, 0, nullptr, nullptr); },
      [] { find_all_bits_on_device<std::uint64_t>({}, 0, nullptr, nullptr); }};
  for (const auto& pass : passes) {
    EXPECT_TRUE(says(testing::message_of<Error>(pass),
                     {"kolo was built without CUDA; build it with -D KOLO_CUDA=ON"}));
  }
}

}  // namespace
}  // namespace kolo
