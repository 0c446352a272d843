#include "network_model.h"

#include <algorithm>
#include <array>
#include <bit>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/text.h"

namespace kolo {

namespace {

constexpr std::array<std::string_view, 3> algorithm_names = {"ring", "tree", "hierarchical"};

// A server's memory: a meeting of processes through shared cache lines, and what one of many cores
// gets of the memory's bandwidth.
constexpr Link server_memory = {2e-6, 5e9};

// Additions by a GPU: its memory carries 1.5 to 3.4 TB/s (A100, H100), and an addition reads twice
// and writes once.
constexpr double device_reduction = 500e9;

// GPUs of a node, by what a ring of NCCL's gets of the links of a GPU in one direction, some 80 %:
// 300 GB/s (third generation of NVLink) and 450 GB/s (fourth) of NVIDIA's white papers on A100
// (2020) and H100 (2022), 32 GB/s of PCIe 4.0 with 16 lanes. A stage of a few bytes takes some 10
// us, most of it for the start of a kernel.
constexpr Link nvlink3 = {10e-6, 240e9}, nvlink4 = {10e-6, 360e9}, pcie4 = {15e-6, 25e9};

// Round numbers of the order that such networks are known for, not measured by us: a start, where
// nothing can be measured.
const std::vector<NetworkModel>& known_networks() {
  static const std::vector<NetworkModel> networks = {
      // TCP at an MTU of 1500 carries 94.1 % of the wire's rate: 1448 of the 1538 bytes a frame
      // takes. Round trips through the kernels' TCP and a switch are some 80 us at 1 Gbit/s and 20
      // to 30 us above; half of that here.
      {"ethernet-1g", server_memory, {40e-6, 117.7e6}},
      {"ethernet-10g", server_memory, {15e-6, 1.177e9}},
      {"ethernet-25g", server_memory, {12e-6, 2.942e9}},
      {"ethernet-100g", server_memory, {10e-6, 11.77e9}},
      // 100 and 200 Gbit/s, of which MPI reaches some 97 %, and about 1 us.
      {"infiniband-edr", server_memory, {1.0e-6, 12.1e9}},
      {"infiniband-hdr", server_memory, {1.0e-6, 24.3e9}},
      // One card of 200 Gbit/s a node; about 2 us. More of the network: De Sensi et al., "An
      // in-depth
      // analysis of the Slingshot interconnect", SC20.
      {"slingshot-11", server_memory, {2.0e-6, 23e9}},
      // Some 10 GB/s per node and 1.3 us. More of the network: Alverson, Froese, Kaplan and Roweth,
      // "Cray XC series network", Cray WP-Aries01-1112, 2012.
      {"aries", server_memory, {1.3e-6, 10e9}},
      // Nodes of GPUs with as many cards as the name says, which all together carry what the ranks
      // of the node send: 200 Gbit/s a card of Slingshot and HDR, 400 of NDR. A message of NCCL's
      // takes longer than MPI's, as the host's processor hands it over.
      {"nvlink3-4x-slingshot-11", nvlink3, {10e-6, 4 * 23e9}, device_reduction},
      {"nvlink3-8x-infiniband-hdr", nvlink3, {8e-6, 8 * 24.3e9}, device_reduction},
      {"nvlink4-8x-infiniband-ndr", nvlink4, {8e-6, 8 * 48.6e9}, device_reduction},
      {"pcie4-ethernet-100g", pcie4, {20e-6, 11.77e9}, device_reduction}};
  return networks;
}

void require_links(const NetworkModel& network, const RankLayout& layout) {
  if (layout.ranks_on_node() > 1 && !(network.within_node.bytes_per_second > 0)) {
    throw InputError(fmt::format(
        "scaling: nothing is known of all-reduces inside a node of {} ranks; measure some with "
        "kolo bench FILE -n {} --profile --json, or name a network",
        layout.ranks_on_node(), layout.ranks_on_node()));
  }
  if (layout.nodes() > 1 && !(network.between_nodes.bytes_per_second > 0)) {
    throw InputError(fmt::format(
        "scaling: nothing is known of the network between {} nodes; name one ({}), or measure "
        "all-reduces over some nodes with kolo bench FILE --profile --json",
        layout.nodes(), join(network_names())));
  }
}

int rounds_of(int participants) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(participants - 1)));
}

bool is_power_of_two(int number) {
  return std::has_single_bit(static_cast<unsigned>(number));
}

// Ranks of an all-reduce without stages: `inner` neighbours on each of `outer` nodes.
struct Participants {
  double bytes;
  int inner, outer;
  Link near, far;
  double reduction;  // seconds a byte

  [[nodiscard]] int all() const { return inner * outer; }
};

double ring_seconds(const Participants& of) {
  const double parts = of.all();
  const double part = of.bytes / parts;
  // All ranks send at once, so each turn lasts as long as its slowest hop. One message at a time
  // crosses a node's connection in each direction.
  const double near = of.inner > 1 ? of.near.latency_seconds + part / of.near.bytes_per_second : 0;
  const double far = of.outer > 1 ? of.far.latency_seconds + part / of.far.bytes_per_second : 0;
  return 2 * (parts - 1) * std::max(near, far) + (parts - 1) * part * of.reduction;
}

// Ranks beyond a power of two give their buffers to a neighbour first and get the result last.
double odd_ranks_seconds(const Participants& of) {
  const bool is_near_odd = !is_power_of_two(of.inner), is_far_odd = !is_power_of_two(of.outer);
  if (!is_near_odd && !is_far_odd) return 0;
  const Link& link = is_far_odd ? of.far : of.near;
  return 2 * (link.latency_seconds + of.bytes / link.bytes_per_second) + of.bytes * of.reduction;
}

double doubling_seconds(const Participants& of) {
  const double near_rounds = rounds_of(of.inner), far_rounds = rounds_of(of.outer);
  // In the rounds between nodes all ranks of a node send through its one connection.
  const double near = of.near.latency_seconds + of.bytes / of.near.bytes_per_second;
  const double far = of.far.latency_seconds + of.inner * of.bytes / of.far.bytes_per_second;
  return (near_rounds > 0 ? near_rounds * near : 0) + (far_rounds > 0 ? far_rounds * far : 0) +
         (near_rounds + far_rounds) * of.bytes * of.reduction + odd_ranks_seconds(of);
}

double halving_seconds(const Participants& of) {
  const double inner = of.inner, outer = of.outer;
  // Near partners come first, so that what is left for the rounds between nodes is 1 / inner of the
  // bytes, from each of `inner` ranks.
  double phase = 0;
  if (of.inner > 1) {
    phase += rounds_of(of.inner) * of.near.latency_seconds +
             of.bytes * (inner - 1) / inner / of.near.bytes_per_second;
  }
  if (of.outer > 1) {
    phase += rounds_of(of.outer) * of.far.latency_seconds +
             of.bytes * (outer - 1) / outer / of.far.bytes_per_second;
  }
  const double all = of.all();
  return 2 * phase + of.bytes * (all - 1) / all * of.reduction + odd_ranks_seconds(of);
}

double tree_seconds(const Participants& of) {
  return std::min(doubling_seconds(of), halving_seconds(of));
}

Participants all_ranks(const NetworkModel& network, const RankLayout& layout, double bytes) {
  return {bytes,
          layout.ranks_on_node(),
          layout.nodes(),
          network.within_node,
          network.between_nodes,
          1 / network.reduction_bytes_per_second};
}

}  // namespace

RankLayout with_own_devices(RankLayout layout) {
  layout.cores_per_node = std::max(layout.cores_per_node, layout.ranks_per_node);
  return layout;
}

NetworkModel between_devices(NetworkModel network) {
  network.reduction_bytes_per_second =
      std::max(network.reduction_bytes_per_second, device_reduction);
  return network;
}

void check(const RankLayout& layout) {
  if (layout.ranks < 1 || layout.ranks_per_node < 1 || layout.cores_per_node < 1) {
    throw Error(
        fmt::format("scaling: a layout of {} ranks, {} per node of {} cores; each must be at "
                    "least 1",
                    layout.ranks, layout.ranks_per_node, layout.cores_per_node));
  }
}

std::string_view algorithm_name(AllReduceAlgorithm algorithm) {
  return algorithm_names[static_cast<std::size_t>(algorithm)];
}

AllReduceAlgorithm algorithm_named(std::string_view name) {
  const auto found = std::find(algorithm_names.begin(), algorithm_names.end(), name);
  if (found == algorithm_names.end()) {
    throw InputError(
        fmt::format("scaling: unknown all-reduce algorithm \"{}\"; there are ring, tree "
                    "and hierarchical (which is what kolo does)",
                    name));
  }
  return static_cast<AllReduceAlgorithm>(found - algorithm_names.begin());
}

double node_stage_seconds(const NetworkModel& network, const RankLayout& layout, double bytes) {
  const int ranks = layout.ranks_on_node();
  if (ranks == 1) return 0;
  // Whatever their number, each rank reads its slice from all buffers and writes it to all: as much
  // as a buffer, twice. The ranks meet before and after.
  const double alone =
      2 * network.within_node.latency_seconds + 2 * bytes / network.within_node.bytes_per_second;
  return alone * std::max(1., static_cast<double>(ranks) / layout.cores_per_node);
}

double between_nodes_seconds(const NetworkModel& network, const RankLayout& layout, double bytes) {
  const int nodes = layout.nodes();
  if (nodes == 1) return 0;
  // The owners of a node's slices share its connection, and each adds up its own.
  const int owners = std::min(layout.ranks_on_node(), layout.cores_per_node);
  const Participants of = {bytes,
                           1,
                           nodes,
                           network.within_node,
                           network.between_nodes,
                           1 / network.reduction_bytes_per_second / owners};
  return std::min(ring_seconds(of), tree_seconds(of));
}

double all_reduce_seconds(const NetworkModel& network, AllReduceAlgorithm algorithm,
                          const RankLayout& layout, double bytes) {
  check(layout);
  if (layout.ranks == 1) return 0;
  require_links(network, layout);
  switch (algorithm) {
    case AllReduceAlgorithm::ring:
      return ring_seconds(all_ranks(network, layout, bytes));
    case AllReduceAlgorithm::tree:
      return tree_seconds(all_ranks(network, layout, bytes));
    case AllReduceAlgorithm::hierarchical:
      return node_stage_seconds(network, layout, bytes) +
             between_nodes_seconds(network, layout, bytes);
  }
  return 0;
}

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const auto& network : known_networks()) names.push_back(network.name);
  return names;
}

NetworkModel network_named(std::string_view name) {
  for (const auto& network : known_networks()) {
    if (network.name == name) return network;
  }
  const auto names = network_names();
  const auto near = nearest(name, names);
  throw InputError(fmt::format("scaling: unknown network \"{}\"{}; there are {}", name,
                               near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near),
                               join(names)));
}

}  // namespace kolo
