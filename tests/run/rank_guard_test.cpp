// What is said of an exception.
#include <new>
#include <stdexcept>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "run/rank_guard.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

template <typename Step>
std::string said_of(const Step& step) {
  try {
    step();
  } catch (const std::exception& error) {
    return kolo::message_of(error);
  }
  return {};
}

TEST(MessageOf, ATorchErrorIsSaidWithoutAddresses) {
  const auto said = said_of([] { (void)torch::ones({2, 3}).matmul(torch::ones({2, 3})); });
  EXPECT_TRUE(says(said, {"2x3"}));
  EXPECT_EQ(said.find("frame #"), std::string::npos) << said;
  EXPECT_EQ(said.find("Exception raised"), std::string::npos) << said;
  const auto passed_on = said_of([] {
    try {
      (void)torch::ones({2, 3}).matmul(torch::ones({2, 3}));
    } catch (const std::exception& error) {
      throw std::runtime_error(error.what());
    }
  });
  EXPECT_EQ(passed_on, said);
}

TEST(MessageOf, WantOfMemoryIsSaidAlike) {
  const auto said = said_of([] { throw std::bad_alloc(); });
  EXPECT_TRUE(says(said, {"not enough memory"}));
  EXPECT_EQ(said_of([] { (void)torch::empty({std::int64_t{1} << 50}); }), said);
}

}  // namespace
}  // namespace kolo::testing
