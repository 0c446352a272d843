#include "kolo/comm/topology.h"

#include <gtest/gtest.h>

namespace kolo {
namespace {

TEST(Topology, UnevenAndInterleavedNodes) {
  const int ids[] = {40, 7, 40, 40, 7, 9};
  const auto topology = Topology::from_node_ids(3, ids);
  EXPECT_EQ(topology.size, 6);
  EXPECT_EQ(topology.nodes, 3);
  EXPECT_EQ(topology.node, 0);
  EXPECT_EQ(topology.local_rank, 2);
  EXPECT_EQ(topology.local_size, 3);
  EXPECT_EQ(topology.smallest_node(), 1);
  EXPECT_EQ(topology.node_of_rank, (std::vector<int>{0, 1, 0, 0, 1, 2}));
  EXPECT_EQ(Topology::from_node_ids(4, ids).describe(),
            "rank 4 of 6, local rank 1 of 2 on node 1 of 3");
}

}  // namespace
}  // namespace kolo
