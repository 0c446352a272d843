#pragma once

#include <span>
#include <string>
#include <vector>

namespace kolo {

// Nodes of the ranks. A node is a set of ranks that can share memory; nodes may hold different
// numbers of ranks.
struct Topology {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // this rank's number among the ranks of its node
  int local_size = 1;  // ranks on this node
  int node = 0;        // nodes are numbered in the order of their lowest rank
  int nodes = 1;
  std::vector<int> node_of_rank = {0};

  // Makes a topology of numbers by rank, which are equal for ranks on the same node.
  [[nodiscard]] static Topology from_node_ids(int rank, std::span<const int> node_id_of_rank);

  // Ranks on this rank's node, in ascending order.
  [[nodiscard]] std::vector<int> ranks_on_node() const;

  // Number of ranks on the smallest node.
  [[nodiscard]] int smallest_node() const;

  // "rank 3 of 8, local rank 1 of 2 on node 1 of 4"
  [[nodiscard]] std::string describe() const;
};

}  // namespace kolo
