#include <vector>

#include <gmock/gmock.h>

#include "parallel/tensors/tensors.h"
#include "support/says.h"

namespace kolo::parallel {
namespace {

const Topology two_nodes = Topology::from_node_ids(0, std::vector<int>{0, 0, 1, 1});

std::string problem_of(const std::vector<std::int64_t>& devices, bool may_share = false) {
  return device_problem(two_nodes, devices, may_share);
}

TEST(DevicesOfRanks, RanksThatShareADeviceOrLackOneAreNamed) {
  EXPECT_TRUE(says(problem_of({7, 8, 9, 9}), {"ranks 2 and 3 have the same GPU"}));
  EXPECT_TRUE(
      says(problem_of({7, 8, 0, 9}), {"rank 2 has no GPU that kolo can use, and rank 0 has one"}));
  EXPECT_EQ(problem_of({7, 8, 9, 9}, /*may_share=*/true), "");
  EXPECT_EQ(problem_of({7, 8, 7, 8}), "") << "numbers of other nodes mean nothing";
  EXPECT_EQ(problem_of({0, 0, 0, 0}), "");
}

}  // namespace
}  // namespace kolo::parallel
