#include <limits>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/parallel/checks.h"
#include "parallel/small_network.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

RANK_TEST(FiniteCheck, EveryPlaceAndTypeIsLookedAt) {
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16}) {
    SmallNetwork network(1000);
    network.to(type);
    const ParameterArena arena(communicator, network);
    for (std::size_t bucket = 0; bucket < arena.buckets(); ++bucket) {
      const torch::Tensor& flat = arena.flat_gradients(bucket);
      flat.fill_(-60000.0);  // large, but finite in all of them
      EXPECT_TRUE(all_finite(communicator, arena));
      for (const double value : {infinity, -infinity, not_a_number}) {
        for (const std::int64_t place : {std::int64_t{0}, flat.numel() / 2, flat.numel() - 1}) {
          if (communicator.rank() == communicator.size() - 1) flat[place] = value;
          EXPECT_FALSE(all_finite(communicator, arena)) << value << " at " << place;
          flat[place] = 1;
          EXPECT_TRUE(all_finite(communicator, arena));
        }
      }
    }
  }
}

RANK_TEST(FiniteCheck, StoppingNamesParametersAndRanks) {
  SmallNetwork network;
  const auto arena = std::make_shared<ParameterArena>(communicator, network);
  FiniteCheck check(communicator, arena);
  EXPECT_TRUE(check.may_step(1));
  const int last = communicator.size() - 1;
  if (communicator.rank() == last) arena->gradient_view(0)[1][2] = not_a_number;
  EXPECT_THAT(message_of<Error>([&] { (void)check.may_step(7); }),
              AllOf(HasSubstr("step 7"), HasSubstr(fmt::format("first.weight (rank {})", last)),
                    Not(HasSubstr("second"))));
}

RANK_TEST(FiniteCheck, SkippingIsCountedAndEnds) {
  SmallNetwork network;
  const auto arena = std::make_shared<ParameterArena>(communicator, network);
  FiniteCheck check(communicator, arena, {.policy = NonFinite::skip, .most_in_a_row = 2});
  const auto step = [&](bool is_good, std::int64_t number) {
    arena->gradient_view(3).fill_(is_good || communicator.rank() > 0 ? 1 : infinity);
    return check.may_step(number);
  };
  EXPECT_TRUE(step(true, 1));
  EXPECT_FALSE(step(false, 2));
  EXPECT_FALSE(step(false, 3));
  EXPECT_TRUE(step(true, 4));
  EXPECT_FALSE(step(false, 5));
  EXPECT_FALSE(step(false, 6));
  EXPECT_EQ(check.skipped_steps(), 4);
  EXPECT_TRUE(says(message_of<Error>([&] { (void)step(false, 7); }),
                   {"step 7", "second.bias (rank 0), and 2 steps before"}));
}

}  // namespace

}  // namespace kolo::testing
