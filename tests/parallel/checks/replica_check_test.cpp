#include <set>

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

RANK_TEST(ReplicaCheck, EqualReplicasPassWhateverTheirLayout) {
  SmallNetwork network;
  // Views of an arena on one rank, LibTorch's own memory on the others.
  std::shared_ptr<ParameterArena> arena;
  if (communicator.rank() == 0) {
    arena = std::make_shared<ParameterArena>(Communicator::solo(), network, BucketLimits{1, 1});
  }
  const ReplicaCheck check(communicator, network, 2);
  for (std::int64_t step = 1; step < 5; ++step) EXPECT_NO_THROW(check.after_step(step));
}

RANK_TEST(ReplicaCheck, ADriftedReplicaIsNamedWithItsParameters) {
  if (communicator.size() == 1) return;
  SmallNetwork network;
  const auto arena = std::make_shared<ParameterArena>(communicator, network);
  const ReplicaCheck check(communicator, *arena, 10);
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
  const ReplicaCheck check(communicator, network, 1);
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

}  // namespace

}  // namespace kolo::testing
