#include "predict_spatial.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "step_work.h"

namespace kolo {

namespace {

enum class Pass { forward, backward };

// Times of messages between the ranks of a plan, with all groups at once.
class Exchanges {
 public:
  Exchanges(const SpatialNetworkPlan& plan, const NetworkModel& network, const RankLayout& layout,
            double bytes_per_element)
      : plan_(plan),
        network_(network),
        layout_(layout),
        bytes_per_element_(bytes_per_element),
        turns_(std::max(1., static_cast<double>(layout.ranks_on_node()) / layout.cores_per_node)) {
    for (int rank = 0; rank < plan.ranks(); ++rank)
      shares_.push_back(spatial_layer_parts(plan, rank));
    // Groups lie on nodes as before from there on.
    const auto until_again = std::lcm<std::int64_t>(plan.ranks(), layout.ranks_per_node);
    ranks_ = static_cast<int>(std::min<std::int64_t>(layout.ranks, until_again));
  }

  // The share of a layer's FLOPs that the rank with the most of them has.
  [[nodiscard]] double largest_share(std::size_t layer, std::int64_t whole) const {
    std::int64_t most = 0;
    for (const auto& share : shares_) most = std::max(most, share[layer].flops);
    return static_cast<double>(most) / static_cast<double>(whole);
  }

  [[nodiscard]] double halo_seconds(std::size_t layer, Pass pass) const {
    double sum = 0;
    for (std::size_t axis = 0; axis < plan_.shape.size(); ++axis) {
      if (plan_.shape[axis] > 1) sum += halo_seconds(layer, pass, axis);
    }
    return sum;
  }

  [[nodiscard]] double gather_seconds(std::size_t layer) const {
    double slowest = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      double sum = 0;
      for (const auto& gather : share_of(rank)[layer].gathers) sum += ring_seconds(rank, gather);
      slowest = std::max(slowest, sum);
    }
    return slowest;
  }

 private:
  [[nodiscard]] const std::vector<SpatialLayerPart>& share_of(int rank) const {
    return shares_[static_cast<std::size_t>(rank % plan_.ranks())];
  }
  [[nodiscard]] int node_of(int rank) const { return rank / layout_.ranks_per_node; }
  [[nodiscard]] double bytes(std::int64_t elements) const {
    return bytes_per_element_ * static_cast<double>(elements);
  }

  // Messages of a rank along an axis.
  struct Sent {
    double near_seconds = 0;
    double far_messages = 0;
    double far_bytes = 0;
  };

  [[nodiscard]] Sent sent(int rank, std::size_t layer, Pass pass, std::size_t axis) const {
    const auto& share = share_of(rank)[layer];
    const auto group = rank / plan_.ranks() * plan_.ranks();
    const auto& near = network_.message_link(true);
    Sent sent;
    for (const auto& message : pass == Pass::forward ? share.forward : share.backward) {
      if (message.axis != axis) continue;
      if (node_of(rank) != node_of(group + message.peer)) {
        sent.far_messages += 1;
        sent.far_bytes += bytes(message.elements);
      } else {
        sent.near_seconds +=
            turns_ * (near.latency_seconds + bytes(message.elements) / near.bytes_per_second);
      }
    }
    return sent;
  }

  // The next layer waits for the slowest rank: where a node's connection is taken, for all that the
  // node's ranks send.
  [[nodiscard]] double halo_seconds(std::size_t layer, Pass pass, std::size_t axis) const {
    std::vector<Sent> by_rank;
    std::vector<double> node_bytes(static_cast<std::size_t>(node_of(ranks_ - 1)) + 1, 0);
    for (int rank = 0; rank < ranks_; ++rank) {
      by_rank.push_back(sent(rank, layer, pass, axis));
      node_bytes[static_cast<std::size_t>(node_of(rank))] += by_rank.back().far_bytes;
    }
    const auto& far = network_.message_link(false);
    double slowest = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto& from = by_rank[static_cast<std::size_t>(rank)];
      auto seconds = from.near_seconds;
      if (from.far_messages > 0) {
        seconds += from.far_messages * far.latency_seconds +
                   node_bytes[static_cast<std::size_t>(node_of(rank))] / far.bytes_per_second;
      }
      slowest = std::max(slowest, seconds);
    }
    return slowest;
  }

  // The parts of all ranks along an axis, on all of them. Of a node's ranks those on one line pass
  // one part at a time through its connection.
  [[nodiscard]] double ring_seconds(int rank, const HaloGather& gather) const {
    const auto count = plan_.shape[gather.axis];
    int step = 1;
    for (auto axis = gather.axis + 1; axis < plan_.shape.size(); ++axis) step *= plan_.shape[axis];
    const auto first = rank - rank / step % count * step;
    int on_node = 0;
    for (int place = 0; place < count; ++place)
      on_node += node_of(first + place * step) == node_of(rank) ? 1 : 0;
    const auto part = bytes(gather.elements) / count;
    if (on_node == count) {
      const auto& near = network_.within_node;
      return (count - 1) * turns_ * (near.latency_seconds + part / near.bytes_per_second);
    }
    const auto& far = network_.between_nodes;
    const auto lines = static_cast<double>(layout_.ranks_on_node()) / on_node;
    return (count - 1) * (far.latency_seconds + lines * part / far.bytes_per_second);
  }

  const SpatialNetworkPlan& plan_;
  const NetworkModel& network_;
  const RankLayout& layout_;
  double bytes_per_element_;                           // of a whole batch
  double turns_;                                       // that ranks take on the node's cores
  std::vector<std::vector<SpatialLayerPart>> shares_;  // by rank of the group, by layer
  int ranks_ = 1;                                      // that differ
};

// Transposed layers fold what they have made and, backward, extend what they begin with; others
// the other way round.
StepWork divide(const StepProfile& profile, const SpatialNetworkPlan& plan,
                const Exchanges& exchanges) {
  const auto one = plan_spatial_network(plan.layers, plan.lengths, {});
  const auto whole = spatial_layer_parts(one, 0);
  StepWork work{.data_share = 1. / plan.ranks()};
  // The sample has no gradient.
  const auto backward_of = [&](std::size_t layer) {
    return static_cast<double>(whole[layer].flops) * (layer == 0 ? 1 : 2);
  };
  double forward_sum = 0, backward_sum = 0;
  for (std::size_t layer = 0; layer < whole.size(); ++layer) {
    forward_sum += static_cast<double>(whole[layer].flops);
    backward_sum += backward_of(layer);
  }
  const auto add = [&](std::vector<WorkPiece>& pieces, std::size_t layer, Pass pass) {
    const bool is_transposed = plan.layers[layer].axes.front().is_transposed;
    const bool is_first = is_transposed == (pass == Pass::backward);
    const auto halo = exchanges.halo_seconds(layer, pass);
    const auto gather = exchanges.gather_seconds(layer);
    const auto measured =
        pass == Pass::forward
            ? profile.forward_seconds * static_cast<double>(whole[layer].flops) / forward_sum
            : profile.backward_seconds * backward_of(layer) / backward_sum;
    WorkPiece piece{.measured_seconds = measured,
                    .share = exchanges.largest_share(layer, whole[layer].flops)};
    WorkPiece after;
    (is_first ? piece : after).exchange_seconds += halo;
    if (pass == Pass::forward) piece.exchange_seconds += gather;
    // Gradients are added up, which takes twice as long.
    if (pass == Pass::backward && layer > 0) after.exchange_seconds += 2 * gather;
    pieces.push_back(piece);
    if (after.exchange_seconds > 0) pieces.push_back(after);
  };
  for (std::size_t layer = 0; layer < whole.size(); ++layer)
    add(work.forward, layer, Pass::forward);
  for (auto layer = whole.size(); layer-- > 0;) add(work.backward, layer, Pass::backward);
  return work;
}

void require_groups(const SpatialNetworkPlan& plan, const RankLayout& layout) {
  check(layout);
  if (plan.layers.empty()) throw Error("scaling: a network without layers can't be divided");
  if (layout.ranks % plan.ranks() == 0) return;
  throw Error(
      fmt::format("scaling: {} ranks in groups of {} that share a sample; expected a "
                  "multiple of {}",
                  layout.ranks, plan.ranks(), plan.ranks()));
}

void require_times_of_links(const NetworkModel& network, const RankLayout& layout) {
  // An all-reduce of a byte among them does.
  (void)all_reduce_seconds(network, AllReduceAlgorithm::hierarchical, layout, 1);
}

}  // namespace

SpatialPrediction predict_spatial_step(const StepProfile& profile, const SpatialNetworkPlan& plan,
                                       const NetworkModel& network, const RankLayout& layout,
                                       const SimulatorOptions& options,
                                       std::int64_t element_bytes) {
  require_groups(plan, layout);
  require_times_of_links(network, layout);
  const auto bytes = checked_multiply(element_bytes, profile.batch_size);
  const auto placed = profile.device.empty() ? layout : with_own_devices(layout);
  const Exchanges exchanges(plan, network, placed, static_cast<double>(bytes));
  SpatialPrediction prediction;
  prediction.step = play_step(profile, divide(profile, plan, exchanges), network, layout, options);
  const auto groups = static_cast<double>(layout.ranks) / plan.ranks();
  const auto samples = groups * static_cast<double>(profile.batch_size);
  const auto alone = profile.compute_seconds() + profile.data_wait_seconds;
  prediction.samples_per_second = samples / prediction.step.step_seconds;
  prediction.efficiency = alone / (plan.ranks() * prediction.step.step_seconds);
  const auto most = most_spatial_bytes(plan, element_bytes);
  prediction.halo_bytes = checked_multiply(profile.batch_size, most.halo);
  prediction.kept_bytes = checked_multiply(profile.batch_size, most.kept);
  prediction.peak_bytes = checked_multiply(profile.batch_size, most.peak);
  return prediction;
}

std::vector<SpatialPoint> predict_spatial_points(
    const SpatialStudy& study, std::span<const std::vector<std::int64_t>> shapes) {
  std::vector<SpatialPoint> points;
  for (const auto& shape : shapes) {
    SpatialPoint point{.plan = plan_spatial_network(study.layers, study.lengths, shape)};
    point.ranks = checked_multiply(point.plan.ranks(), study.groups);
    const RankLayout layout{point.ranks, study.ranks_per_node, study.cores_per_node};
    point.prediction = predict_spatial_step(study.profile, point.plan, study.network, layout,
                                            study.options, study.element_bytes);
    points.push_back(std::move(point));
  }
  return points;
}

}  // namespace kolo
