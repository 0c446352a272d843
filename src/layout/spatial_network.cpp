#include "kolo/layout/spatial_network.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/layout/mesh_shape.h"

namespace kolo {

namespace {

// Part of a layer that a coordinate along an axis has.
struct AxisPart {
  std::int64_t input = 0, output = 0;          // rows, all of them where the layer is whole
  std::int64_t gathered = 0;                   // rows after gathering; 0: nothing is gathered
  std::int64_t owned = 0, extended = 0;        // of the side that is exchanged
  std::vector<RowMessage> extending, folding;  // sends; peers are coordinates along the axis
};

std::int64_t product(std::initializer_list<std::int64_t> factors) {
  return checked_product(std::span(factors.begin(), factors.size()));
}

void add_to(std::int64_t& sum, std::int64_t value) {
  sum = checked_add(sum, value);
}

void require_layers(std::span<const FieldLayer> layers, std::size_t axes) {
  if (axes < 1 || axes > spatial_axes.size()) {
    throw Error(
        fmt::format("spatial: samples of {} axes, expected 1 to {}", axes, spatial_axes.size()));
  }
  for (const auto& layer : layers) {
    if (layer.axes.size() != axes) {
      throw Error(fmt::format("spatial: {} has {} axes, samples have {}", layer.name,
                              layer.axes.size(), axes));
    }
    const bool is_divided = layer.groups >= 1 && layer.inputs >= 1 && layer.outputs >= 1 &&
                            layer.inputs % layer.groups == 0 && layer.outputs % layer.groups == 0;
    if (is_divided) continue;
    throw Error(fmt::format(
        "spatial: {} takes {} channels and makes {} in {} groups; expected 1 or more of each, and "
        "groups that divide both",
        layer.name, layer.inputs, layer.outputs, layer.groups));
  }
}

std::vector<int> full_shape(std::span<const std::int64_t> lengths,
                            std::span<const std::int64_t> shape) {
  if (shape.size() > lengths.size()) {
    throw InputError(fmt::format("spatial: [{}] cuts {} axes, but samples of [{}] have {}",
                                 fmt::join(shape, ","), shape.size(), fmt::join(lengths, ", "),
                                 lengths.size()));
  }
  std::vector<int> full;
  for (const auto ranks : shape) full.push_back(narrow<int>(ranks));
  full.resize(lengths.size(), 1);
  return full;
}

// FLOPs of the layer for `coarse` values per channel, outputs or a transposed layer's inputs, each
// of which meets all taps.
std::int64_t flops_of(const FieldLayer& layer, std::int64_t coarse) {
  auto taps = product({2, layer.inputs / layer.groups, layer.outputs, coarse});
  for (const auto& axis : layer.axes) taps = checked_multiply(taps, axis.kernel);
  return taps;
}

bool is_transposed(const FieldLayer& layer) {
  return layer.axes.front().is_transposed;
}

std::int64_t whole_sample_flops(const SpatialNetworkPlan& plan, std::size_t layer) {
  std::int64_t coarse = 1;
  for (const auto& cut : plan.cuts[layer]) {
    const auto& side = cut.is_transposed ? cut.input : cut.output;
    coarse = checked_multiply(coarse, side.length());
  }
  return flops_of(plan.layers[layer], coarse);
}

AxisPart axis_part(const LayerCut& cut, bool is_whole, int coordinate) {
  const auto rows = [&](const AxisCut& side) {
    return is_whole ? side.length() : side.rows(coordinate).size();
  };
  AxisPart part{.input = rows(cut.input), .output = rows(cut.output)};
  part.owned = part.extended = rows(cut.exchanged());
  if (is_whole && cut.gathers_input) part.gathered = cut.input.length();
  // Along an axis that one rank has all of, borders are the layer's own padding.
  if (is_whole || cut.input.ranks() == 1) return part;
  part.extended = cut.extended(coordinate).size();
  const auto messages = row_messages(cut, coordinate);
  part.extending = messages.sends;
  part.folding = messages.receives;
  return part;
}

std::int64_t elements(std::span<const AxisPart> axes, std::int64_t channels,
                      std::int64_t AxisPart::*rows) {
  auto count = channels;
  for (const auto& axis : axes) count = checked_multiply(count, axis.*rows);
  return count;
}

// Distance of neighbours along the axis in the group, whose last axis is the fastest.
int rank_step(const SpatialNetworkPlan& plan, std::size_t axis) {
  int step = 1;
  for (auto i = axis + 1; i < plan.shape.size(); ++i) step *= plan.shape[i];
  return step;
}

std::vector<int> coordinates_of(const SpatialNetworkPlan& plan, int rank) {
  if (rank < 0 || rank >= plan.ranks()) {
    throw Error(fmt::format("spatial: rank {} of {} that share a sample", rank, plan.ranks()));
  }
  std::vector<int> coordinates;
  for (std::size_t axis = 0; axis < plan.shape.size(); ++axis)
    coordinates.push_back(rank / rank_step(plan, axis) % plan.shape[axis]);
  return coordinates;
}

// Axes are extended one after another, the later ones with the rows received before, and folded
// the other way round: along either way a message has the extended rows of the axes before.
std::vector<HaloMessage> halo_messages(const SpatialNetworkPlan& plan,
                                       std::span<const AxisPart> axes,
                                       std::span<const int> coordinates, std::int64_t channels,
                                       std::vector<RowMessage> AxisPart::*direction) {
  std::vector<HaloMessage> messages;
  int rank = 0;
  for (std::size_t axis = 0; axis < axes.size(); ++axis)
    rank += coordinates[axis] * rank_step(plan, axis);
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    auto plane = elements(axes.first(axis), channels, &AxisPart::extended);
    plane = elements(axes.subspan(axis + 1), plane, &AxisPart::owned);
    for (const auto& [coordinate, rows] : axes[axis].*direction) {
      const auto peer = rank + (coordinate - coordinates[axis]) * rank_step(plan, axis);
      const auto count = checked_multiply(plane, rows.size());
      if (count > 0) messages.push_back({peer, axis, count});
    }
  }
  return messages;
}

// Gathers one axis after another, the later ones with the rows gathered before.
std::vector<HaloGather> gathers_of(std::vector<AxisPart> axes, const SpatialNetworkPlan& plan,
                                   std::size_t layer, std::span<const int> coordinates) {
  std::vector<HaloGather> gathers;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    if (axes[axis].gathered > 0)
      axes[axis].input = plan.cuts[layer][axis].input.rows(coordinates[axis]).size();
  }
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    if (axes[axis].gathered == 0) continue;
    axes[axis].input = axes[axis].gathered;
    gathers.push_back({axis, elements(axes, plan.layers[layer].inputs, &AxisPart::input)});
  }
  return gathers;
}

SpatialLayerPart layer_part(const SpatialNetworkPlan& plan, std::size_t number,
                            std::span<const int> coordinates) {
  const auto& layer = plan.layers[number];
  std::vector<AxisPart> axes;
  for (std::size_t axis = 0; axis < coordinates.size(); ++axis) {
    axes.push_back(
        axis_part(plan.cuts[number][axis], plan.is_whole(number, axis), coordinates[axis]));
  }
  const bool is_folded = is_transposed(layer);
  SpatialLayerPart part;
  const auto coarse = is_folded ? &AxisPart::input : &AxisPart::output;
  part.flops = flops_of(layer, elements(axes, 1, coarse));
  part.input_elements = elements(axes, layer.inputs, &AxisPart::input);
  part.output_elements = elements(axes, layer.outputs, &AxisPart::output);
  part.gathers = gathers_of(axes, plan, number, coordinates);
  if (!part.gathers.empty()) part.room_elements = part.gathers.back().elements;

  const auto channels = is_folded ? layer.outputs : layer.inputs;
  const auto extending = halo_messages(plan, axes, coordinates, channels, &AxisPart::extending);
  const auto folding = halo_messages(plan, axes, coordinates, channels, &AxisPart::folding);
  const bool is_extended =
      std::ranges::any_of(axes, [](const AxisPart& axis) { return axis.extended != axis.owned; });
  if (is_folded) {
    part.forward = folding;
    part.backward = extending;
  } else {
    part.forward = extending;
    if (number > 0) part.backward = folding;
    if (is_extended) part.room_elements = elements(axes, channels, &AxisPart::extended);
  }
  return part;
}

SpatialTotals totals_at(const SpatialNetworkPlan& plan, std::span<const int> coordinates) {
  SpatialTotals totals;
  std::int64_t largest_gradient = 0;
  for (std::size_t number = 0; number < plan.layers.size(); ++number) {
    const auto& layer = plan.layers[number];
    const auto part = layer_part(plan, number, coordinates);
    for (const auto* messages : {&part.forward, &part.backward}) {
      for (const auto& message : *messages) add_to(totals.halo_elements, message.elements);
      add_to(totals.halo_messages, static_cast<std::int64_t>(messages->size()));
    }
    const bool is_joined = number == 0 || plan.layers[number - 1].outputs != layer.inputs;
    if (is_joined) add_to(totals.kept_elements, part.input_elements);
    add_to(totals.kept_elements, part.room_elements);
    if (layer.keeps_output) add_to(totals.kept_elements, part.output_elements);
    if (number > 0) {
      largest_gradient = std::max({largest_gradient, part.input_elements, part.room_elements});
    }
    if (number + 1 == plan.layers.size())
      totals.loss_elements = checked_multiply<std::int64_t>(2, part.output_elements);
  }
  add_to(totals.kept_elements, totals.loss_elements);
  totals.peak_elements = checked_add(totals.kept_elements, largest_gradient);
  return totals;
}

// Calls `visit` with all ways to write a number as a product of so many factors.
template <typename Visit>
void for_each_product(int number, std::size_t factors, std::vector<std::int64_t>& chosen,
                      const Visit& visit) {
  if (factors == 1) {
    chosen.push_back(number);
    visit(chosen);
    chosen.pop_back();
    return;
  }
  for (int factor = 1; factor <= number; ++factor) {
    if (number % factor != 0) continue;
    chosen.push_back(factor);
    for_each_product(number / factor, factors - 1, chosen, visit);
    chosen.pop_back();
  }
}

}  // namespace

std::vector<AxisLayer> layers_along(std::span<const FieldLayer> layers, std::size_t axis) {
  std::vector<AxisLayer> along;
  for (const auto& layer : layers) {
    auto& added = along.emplace_back(layer.axes.at(axis));
    added.mirrors = layer.mirrors;
  }
  return along;
}

int SpatialNetworkPlan::ranks() const {
  return checked_product(std::span<const int>(shape));
}

bool SpatialNetworkPlan::is_whole(std::size_t layer, std::size_t axis) const {
  return shape[axis] > 1 && cuts[layer][axis].is_whole();
}

bool SpatialNetworkPlan::is_whole(std::size_t layer) const {
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (is_whole(layer, axis)) return true;
  }
  return false;
}

double SpatialNetworkPlan::whole_fraction() const {
  return flops == 0 ? 0 : static_cast<double>(whole_flops) / static_cast<double>(flops);
}

SpatialNetworkPlan plan_spatial_network(std::span<const FieldLayer> layers,
                                        std::span<const std::int64_t> lengths,
                                        std::span<const std::int64_t> shape) {
  require_layers(layers, lengths.size());
  SpatialNetworkPlan plan{.layers = {layers.begin(), layers.end()},
                          .lengths = {lengths.begin(), lengths.end()},
                          .shape = full_shape(lengths, shape)};
  (void)plan.ranks();  // that can be counted
  plan.cuts.resize(layers.size());
  for (std::size_t axis = 0; axis < lengths.size(); ++axis) {
    auto along =
        cut_layers(layers_along(layers, axis), cut_evenly(lengths[axis], plan.shape[axis]));
    for (std::size_t layer = 0; layer < layers.size(); ++layer)
      plan.cuts[layer].push_back(std::move(along[layer]));
  }
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const auto flops = whole_sample_flops(plan, layer);
    add_to(plan.flops, flops);
    if (plan.is_whole(layer)) add_to(plan.whole_flops, flops);
  }
  return plan;
}

std::vector<SpatialLayerPart> spatial_layer_parts(const SpatialNetworkPlan& plan, int rank) {
  const auto coordinates = coordinates_of(plan, rank);
  std::vector<SpatialLayerPart> parts;
  for (std::size_t layer = 0; layer < plan.layers.size(); ++layer)
    parts.push_back(layer_part(plan, layer, coordinates));
  return parts;
}

SpatialTotals most_spatial_totals(const SpatialNetworkPlan& plan) {
  SpatialTotals most;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const auto totals = totals_at(plan, coordinates_of(plan, rank));
    for (const auto number : {&SpatialTotals::halo_elements, &SpatialTotals::halo_messages,
                              &SpatialTotals::kept_elements, &SpatialTotals::peak_elements,
                              &SpatialTotals::loss_elements})
      most.*number = std::max(most.*number, totals.*number);
  }
  return most;
}

SpatialBytes most_spatial_bytes(const SpatialNetworkPlan& plan, std::int64_t value_bytes) {
  SpatialBytes most;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const auto totals = totals_at(plan, coordinates_of(plan, rank));
    const auto loss = checked_multiply<std::int64_t>(totals.loss_elements, sizeof(float));
    // Bytes of a number that counts the loss's values, too.
    const auto with_loss = [&](std::int64_t elements) {
      return checked_add(checked_multiply(elements - totals.loss_elements, value_bytes), loss);
    };
    most.halo = std::max(most.halo, checked_multiply(totals.halo_elements, value_bytes));
    most.kept = std::max(most.kept, with_loss(totals.kept_elements));
    most.peak = std::max(most.peak, with_loss(totals.peak_elements));
  }
  return most;
}

std::vector<SpatialNetworkPlan> spatial_plans(std::span<const FieldLayer> layers,
                                              std::span<const std::int64_t> lengths, int ranks) {
  require_layers(layers, lengths.size());
  if (ranks < 1) throw Error(fmt::format("spatial: samples shared by {} ranks", ranks));
  struct Candidate {
    SpatialNetworkPlan plan;
    std::int64_t halo_elements = 0;
  };
  std::vector<Candidate> candidates;
  std::vector<std::int64_t> shape;
  for_each_product(ranks, lengths.size(), shape, [&](const std::vector<std::int64_t>& factors) {
    for (std::size_t axis = 0; axis < factors.size(); ++axis) {
      if (factors[axis] > lengths[axis]) return;
    }
    auto plan = plan_spatial_network(layers, lengths, factors);
    const auto sent = most_spatial_totals(plan).halo_elements;
    candidates.push_back({std::move(plan), sent});
  });
  std::ranges::stable_sort(candidates, [](const Candidate& a, const Candidate& b) {
    return std::tie(a.plan.whole_flops, a.halo_elements, b.plan.shape) <
           std::tie(b.plan.whole_flops, b.halo_elements, a.plan.shape);
  });
  std::vector<SpatialNetworkPlan> plans;
  for (auto& candidate : candidates) plans.push_back(std::move(candidate.plan));
  return plans;
}

std::string describe_whole_layers(const SpatialNetworkPlan& plan) {
  std::vector<std::string> runs;
  for (std::size_t layer = 0; layer < plan.layers.size(); ++layer) {
    if (!plan.is_whole(layer)) continue;
    auto last = layer;
    while (last + 1 < plan.layers.size() && plan.is_whole(last + 1)) ++last;
    const auto &first_name = plan.layers[layer].name, &last_name = plan.layers[last].name;
    runs.push_back(last == layer ? first_name : fmt::format("{} to {}", first_name, last_name));
    layer = last;
  }
  if (runs.empty()) return {};
  const auto percent = 100 * plan.whole_fraction();
  return fmt::format("{}, {:.{}f} % of the work", fmt::join(runs, ", "), percent,
                     percent < 1 ? 2 : 0);
}

}  // namespace kolo
