#include "kolo/comm/topology.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "kolo/base/checked.h"

namespace kolo {

Topology Topology::from_node_ids(int rank, std::span<const int> node_id_of_rank) {
  Topology topology;
  topology.rank = rank;
  topology.size = narrow<int>(node_id_of_rank.size());
  topology.node_of_rank.clear();
  std::map<int, int> node_of_id;
  for (const int id : node_id_of_rank) {
    const auto [entry, is_new] = node_of_id.try_emplace(id, narrow<int>(node_of_id.size()));
    topology.node_of_rank.push_back(entry->second);
  }
  topology.nodes = narrow<int>(node_of_id.size());
  const auto& nodes = topology.node_of_rank;
  const auto here = nodes.begin() + rank;
  topology.node = *here;
  topology.local_size = narrow<int>(std::count(nodes.begin(), nodes.end(), topology.node));
  topology.local_rank = narrow<int>(std::count(nodes.begin(), here, topology.node));
  return topology;
}

int Topology::smallest_node() const {
  std::vector<int> ranks_on(static_cast<std::size_t>(nodes));
  for (const int at : node_of_rank) ++ranks_on[static_cast<std::size_t>(at)];
  return *std::min_element(ranks_on.begin(), ranks_on.end());
}

std::string Topology::describe() const {
  return fmt::format("rank {} of {}, local rank {} of {} on node {} of {}", rank, size, local_rank,
                     local_size, node, nodes);
}

}  // namespace kolo
