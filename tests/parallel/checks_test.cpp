#include <cstdint>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kolo/base/error.h"
#include "kolo/parallel/checks.h"
#include "parallel/small_network.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

RANK_TEST(ReplicaCheck, ADriftedReplicaIsNamedWithItsParameters) {
  if (communicator.size() == 1) return;
  SmallNetwork network;
  const auto arena = std::make_shared<ParameterArena>(communicator, network);
  const ReplicaCheck check(communicator, *arena, 10);
  EXPECT_NO_THROW(check.after_step(10));
  const int last = communicator.size() - 1;
  if (communicator.rank() == last) {
    const torch::NoGradGuard no_gradient;
    network.first->weight[3][2] += 1e-6;
    network.second->bias.neg_();
  }
  EXPECT_NO_THROW(check.after_step(19));
  const std::string message = message_of<Error>([&] { check.after_step(20); });
  const std::string rank = fmt::format("(rank {})", last);
  EXPECT_THAT(message, AllOf(HasSubstr("after step 20"), HasSubstr("first.weight " + rank),
                             HasSubstr("second.bias " + rank), Not(HasSubstr("second.weight")),
                             HasSubstr(communicator.size() == 2 ? "no majority" : "the majority")));
}

RANK_TEST(ReplicaCheck, TheMajorityIsBelieved) {
  if (communicator.size() < 3) return;
  SmallNetwork network(7, communicator.rank() == 0 ? 2 : 1);
  const ReplicaCheck check(communicator, ParameterArena(communicator, network), 1);
  EXPECT_TRUE(says(message_of<Error>([&] { check.compare("at the start"); }),
                   {"at the start", "first.bias (rank 0)", "rank 0 is unlike the majority"}));
}

// Every element, its sign and the number of elements count; so does their order.
RANK_TEST(ReplicaCheck, AChecksumSeesEveryDifference) {
  for (const std::int64_t size : {1, 31, 128, 129, 1000}) {
    const torch::Tensor tensor = torch::arange(1, size + 1, torch::kFloat);
    std::set<std::uint64_t> seen = {checksum_of(tensor)};
    EXPECT_EQ(*seen.begin(), checksum_of(tensor.clone()));
    std::size_t variants = 1;
    const auto expect_new = [&](const torch::Tensor& changed) {
      seen.insert(checksum_of(changed));
      EXPECT_EQ(seen.size(), ++variants);
    };
    for (std::int64_t i = 0; i < size; ++i) {
      auto changed = tensor.clone();
      changed[i] = -changed[i];
      expect_new(changed);
      if (i + 128 >= size) continue;
      changed[i + 128] = -changed[i + 128];  // a second sign, that must not undo the first
      expect_new(changed);
    }
    expect_new(torch::cat({tensor, torch::zeros({1})}));
    if (size > 1) expect_new(tensor.flip(0));
  }
  const auto matrix = torch::arange(12, torch::kDouble).view({3, 4});
  EXPECT_EQ(checksum_of(matrix.t()), checksum_of(matrix.t().contiguous()));
}

TEST(Checksum, SeesEveryByteAndTheirOrder) {
  constexpr std::int64_t size = 1003, half = 500;
  const auto bytes = torch::arange(size).square().remainder(251).to(torch::kByte);
  const std::uint64_t whole = checksum_of(bytes);
  for (std::int64_t position = 0; position < size; ++position) {
    auto changed = bytes.clone();
    changed[position].bitwise_xor_(1);
    EXPECT_NE(checksum_of(changed), whole) << position;
  }
  EXPECT_NE(checksum_of(bytes.slice(0, 0, -1)), whole);
  EXPECT_NE(checksum_of(torch::cat({bytes.slice(0, half, 2 * half), bytes.slice(0, 0, half),
                                    bytes.slice(0, 2 * half)})),
            whole);
}

TEST(Checksum, OfAnyTensorIsThatOfItsCopy) {
  const auto matrix = torch::arange(42).to(torch::kBFloat16).view({6, 7});
  for (const auto& tensor :
       {matrix.t(), matrix.view({-1}).slice(0, 1), matrix.gt(20), torch::ones({}, torch::kByte)})
    EXPECT_EQ(checksum_of(tensor), checksum_of(tensor.contiguous().clone())) << tensor.sizes();
  EXPECT_NE(checksum_of(torch::empty({0, 3})), checksum_of(torch::zeros({1})));
}

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

RANK_TEST(FiniteCheck, EveryPositionAndTypeIsLookedAt) {
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16}) {
    SmallNetwork network(1000);
    network.to(type);
    const ParameterArena arena(communicator, network);
    for (std::size_t bucket = 0; bucket < arena.buckets(); ++bucket) {
      const torch::Tensor& flat = arena.flat_gradients(bucket);
      flat.fill_(-60000.0);  // large, but finite in all of them
      EXPECT_TRUE(all_finite(communicator, arena));
      for (const double value : {infinity, -infinity, not_a_number}) {
        for (const std::int64_t position : {std::int64_t{0}, flat.numel() / 2, flat.numel() - 1}) {
          if (communicator.rank() == communicator.size() - 1) flat[position] = value;
          EXPECT_FALSE(all_finite(communicator, arena)) << value << " at " << position;
          flat[position] = 1;
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
  FiniteCheck check(communicator, arena, 2);
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
  EXPECT_TRUE(says(message_of<Error>([&] { (void)step(false, 7); }),
                   {"step 7", "second.bias (rank 0), and 2 steps before"}));
}

}  // namespace

}  // namespace kolo::testing
