#include "parallel/place_ranks.h"
#include "support/says.h"

#include <vector>

#include <gmock/gmock.h>

namespace kolo::parallel {
namespace {

using ::testing::IsEmpty;

const Topology two_nodes = Topology::from_node_ids(0, std::vector<int>{0, 0, 1, 1});

TEST(PlaceOnDevices, RanksOfANodeWithOneDeviceAreNamed) {
  EXPECT_TRUE(says(describe_shared_device(two_nodes, std::vector<std::int64_t>{7, 8, 9, 9}),
                   {"ranks 2 and 3 have the same GPU"}));
  // Numbers of other nodes mean nothing, and no device is none.
  EXPECT_THAT(describe_shared_device(two_nodes, std::vector<std::int64_t>{7, 8, 7, 8}), IsEmpty());
  EXPECT_THAT(describe_shared_device(two_nodes, std::vector<std::int64_t>(4, 0)), IsEmpty());
}

TEST(PlaceOnDevices, ARankWithoutOneIsNamed) {
  EXPECT_TRUE(says(describe_missing_device(std::vector<std::int64_t>{7, 8, 0, 9}),
                   {"rank 2 has no GPU that kolo can use, and rank 0 has one"}));
  EXPECT_THAT(describe_missing_device(std::vector<std::int64_t>(4, 0)), IsEmpty());
  EXPECT_THAT(describe_missing_device(std::vector<std::int64_t>{7, 8, 7, 8}), IsEmpty());
}

}  // namespace
}  // namespace kolo::parallel
