#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/train/observe/bench_records.h"

// Time of an all-reduce from a few numbers of the network: the postal model of Hockney
// ("The communication challenge for MPP", Parallel Computing 20, 1994), in which a message of n
// bytes takes alpha + n beta seconds, and adding n received bytes to one's own takes n gamma.
namespace kolo {

// alpha and 1 / beta.
struct Link {
  double latency_seconds = 0;
  double bytes_per_second = 0;
};

struct NetworkModel {
  std::string name;
  // Inside a node, where ranks read each other's memory: the time of one meeting of its ranks, and
  // how fast a rank goes through memory while all others of the node do too.
  Link within_node;
  // The node's connection, which its ranks share. Other nodes' traffic is not in the way: every
  // pair of nodes has the full bandwidth (no contention in the switches).
  Link between_nodes;
  double reduction_bytes_per_second = 8e9;  // 1 / gamma, of one processor
  // Messages from one rank to another that are waited for (fit_messages()), which wakes threads on
  // both sides. None: as the links above, of which the one within a node is quicker, because
  // ranks in a collective look for each other.
  std::optional<Link> messages_within_node = std::nullopt, messages_between_nodes = std::nullopt;

  [[nodiscard]] const Link& message_link(bool is_within_node) const {
    const auto& measured = is_within_node ? messages_within_node : messages_between_nodes;
    return measured ? *measured : is_within_node ? within_node : between_nodes;
  }
};

// Nodes with a device for each rank, which share no core: as many cores as ranks, at least.
[[nodiscard]] RankLayout with_own_devices(RankLayout layout);
// The network with additions at the rate of a device's memory rather than a processor's.
[[nodiscard]] NetworkModel between_devices(NetworkModel network);

// Error: a number is below 1.
void check(const RankLayout& layout);

// ring: all ranks pass n / p bytes on to their neighbour, 2 (p - 1) times: the least traffic
//   (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
//   JPDC 69, 2009).
// tree: log2 p rounds with partners at distances 1, 2, 4, ...: recursive doubling (everything in
//   every round) or recursive halving and doubling (half as much in each: Rabenseifner's),
//   whichever is quicker (Thakur, Rabenseifner and Gropp, "Optimization of collective communication
//   operations in MPICH", IJHPCA 19, 2005).
// hierarchical: what kolo does. The ranks of a node add up their buffers in shared memory, a slice
//   each; each slice's owner then does an all-reduce over the nodes, for which the MPI library
//   picks among the algorithms above by size (here: the quickest), and all ranks of the node get
//   it.
enum class AllReduceAlgorithm : std::uint8_t { ring, tree, hierarchical };

// "ring", "tree", "hierarchical". Unknown: InputError.
[[nodiscard]] std::string_view algorithm_name(AllReduceAlgorithm algorithm);
[[nodiscard]] AllReduceAlgorithm algorithm_named(std::string_view name);

// The seconds of an all-reduce of so many bytes per rank, which all ranks begin at once; 0 for one
// rank. More ranks on a node than cores take turns at the node's part of the work. InputError: a
// link that it takes has no bandwidth, because it was neither measured nor named.
[[nodiscard]] double all_reduce_seconds(const NetworkModel& network, AllReduceAlgorithm algorithm,
                                        const RankLayout& layout, double bytes);

// The two stages of hierarchical; all_reduce_seconds() is their sum.
[[nodiscard]] double node_stage_seconds(const NetworkModel& network, const RankLayout& layout,
                                        double bytes);
[[nodiscard]] double between_nodes_seconds(const NetworkModel& network, const RankLayout& layout,
                                           double bytes);

// Networks by name, with round numbers of the order that they are known for:
// for a first idea where nothing can be measured.
[[nodiscard]] std::vector<std::string> network_names();
// InputError for an unknown name, with what it may have meant.
[[nodiscard]] NetworkModel network_named(std::string_view name);

struct NetworkFit {
  NetworkModel model;
  std::size_t points = 0;  // that it was fitted to
  // |model / measured - 1| of the points.
  double mean_error = 0;
  double largest_error = 0;
};

// The latencies and bandwidths with which hierarchical all-reduces take the times measured: least
// squares of the relative errors, so that small and large messages count alike. Measurements inside
// one node give within_node, those over several nodes between_nodes; what no measurement tells, and
// the rate of reductions, stay as in `start`, of which no link need be known. Where devices' memory
// was averaged, the model is between_devices(): NCCL's rings and trees are no two stages, but on a
// given number of ranks of a node they too are a latency and a bandwidth. Measure as many as the
// nodes to predict have.
//
// InputError: a link has fewer than three points or a single size, or a time is not above 0.
[[nodiscard]] NetworkFit fit_network(std::span<const CollectiveMeasurement> measurements,
                                     const NetworkModel& start);

// The latency and bandwidth with which messages of these sizes take the times measured, by least
// squares of the relative errors: for a NetworkModel's messages_within_node or
// messages_between_nodes. InputError: fewer than three points, a single size, or a time or size
// that is not above 0.
[[nodiscard]] Link fit_messages(std::span<const CollectiveMeasurement::Point> points);

}  // namespace kolo
