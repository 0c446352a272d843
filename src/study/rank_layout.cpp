#include "study/rank_layout.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "kolo/base/machine.h"

namespace kolo {

namespace {

int cores_of_node() {
  const auto limits = detect_cpu_limits();
  const int quota = limits.quota ? static_cast<int>(std::ceil(*limits.quota)) : limits.online;
  return std::max(1, std::min(limits.online, quota));
}

int ranks_on_fullest_node(const Topology& topology) {
  std::vector<int> ranks(static_cast<std::size_t>(topology.nodes));
  for (const int node : topology.node_of_rank) ++ranks[static_cast<std::size_t>(node)];
  return *std::max_element(ranks.begin(), ranks.end());
}

}  // namespace

RankLayout rank_layout(const Communicator& communicator) {
  return {communicator.size(), ranks_on_fullest_node(communicator.topology()), cores_of_node()};
}

}  // namespace kolo
