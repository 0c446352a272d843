#include "kolo/layout/spatial_plan.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

std::string describe(const AxisLayer& layer) {
  return fmt::format("a {}layer of kernel {}, stride {}, padding {}, dilation {}",
                     layer.is_transposed ? "transposed " : "", layer.kernel, layer.stride,
                     layer.padding, layer.dilation);
}

void require_layer(const AxisLayer& layer) {
  const auto refuse = [&layer](const std::string& expected) {
    throw InputError(fmt::format("spatial: {}, expected {}", describe(layer), expected));
  };
  if (layer.kernel < 1 || layer.stride < 1 || layer.dilation < 1) {
    refuse("kernel, stride and dilation of 1 or more");
  }
  const auto most = window_rows(layer) - 1;
  if (layer.padding < 0 || layer.padding > most) {
    refuse(fmt::format("a padding from 0 to {}, dilation x (kernel - 1)", most));
  }
  const auto most_extra =
      layer.is_transposed ? std::max(layer.stride, layer.dilation) - 1 : std::int64_t{0};
  if (layer.output_padding < 0 || layer.output_padding > most_extra) {
    refuse(fmt::format("an output padding from 0 to {}, got {}", most_extra, layer.output_padding));
  }
}

void require_cut(const AxisCut& cut) {
  if (cut.bounds.size() >= 2 && cut.bounds.front() == 0 && std::ranges::is_sorted(cut.bounds))
    return;
  throw Error("spatial: the bounds of a cut must rise from 0, one more than there are ranks");
}

// Rows that the outputs of a layer, or the inputs of a transposed one, reach over, by the same
// formula: a transposed convolution is the adjoint of a convolution.
RowRange reach(const AxisLayer& layer, const RowRange& coarse, std::int64_t where_nothing) {
  if (coarse.is_empty()) return {where_nothing, where_nothing};
  const auto first = checked_multiply(coarse.begin, layer.stride) - layer.padding;
  const auto last = checked_multiply(coarse.end - 1, layer.stride) - layer.padding;
  return {first, checked_add(last, window_rows(layer))};
}

// The neighbour below (step -1) or above (1) along the axis; none at a border.
std::optional<int> neighbour(const LayerCut& layer, int rank, int step) {
  const auto other = rank + step;
  if (other < 0 || other >= layer.input.ranks()) return std::nullopt;
  return other;
}

std::string missing_rows(const LayerCut& layer, int rank) {
  if (layer.input.rows(rank).is_empty()) return fmt::format("rank {} has no input row", rank);
  if (layer.output.rows(rank).is_empty()) return fmt::format("rank {} has no output row", rank);
  return {};
}

std::string missing_neighbours(const LayerCut& layer, int rank) {
  const auto owned = layer.exchanged().rows(rank), extended = layer.extended(rank);
  if (extended.end <= owned.begin || extended.begin >= owned.end) {
    return fmt::format("rank {} uses none of its own rows", rank);
  }
  for (const auto& [step, rows] :
       {std::pair{-1, owned.begin - extended.begin}, std::pair{1, extended.end - owned.end}}) {
    const auto other = neighbour(layer, rank, step);
    if (!other) continue;
    const auto available = layer.exchanged().rows(*other).size();
    if (rows > available) {
      return fmt::format("rank {} exchanges {} rows with rank {}, which has {}", rank, rows, *other,
                         available);
    }
  }
  return {};
}

// Reason why not every rank can have a part of the layer; "" if each can.
std::string obstacle_in(const LayerCut& layer) {
  for (const auto& missing : {missing_rows, missing_neighbours}) {
    for (int rank = 0; rank < layer.input.ranks(); ++rank) {
      if (auto because = missing(layer, rank); !because.empty()) return because;
    }
  }
  return {};
}

RowRange rows_below(const LayerCut& layer, int rank) {
  return {layer.extended(rank).begin, layer.exchanged().rows(rank).begin};
}

RowRange rows_above(const LayerCut& layer, int rank) {
  return {layer.exchanged().rows(rank).end, layer.extended(rank).end};
}

}  // namespace

AxisCut cut_evenly(std::int64_t length, int ranks) {
  if (ranks < 1) throw Error(fmt::format("spatial: an axis cut among {} ranks", ranks));
  if (length < ranks) {
    throw InputError(
        fmt::format("spatial: {} rows can't be cut among {} ranks; cut this axis in "
                    "{} or less",
                    length, ranks, std::max<std::int64_t>(1, length)));
  }
  AxisCut cut;
  for (int rank = 0; rank <= ranks; ++rank) {
    cut.bounds.push_back(divide_up(checked_multiply<std::int64_t>(rank, length), ranks));
  }
  return cut;
}

std::int64_t window_rows(const AxisLayer& layer) {
  return checked_add(checked_multiply(layer.dilation, layer.kernel - 1), std::int64_t{1});
}

std::int64_t output_length(const AxisLayer& layer, std::int64_t length) {
  require_layer(layer);
  if (length < 1) throw InputError(fmt::format("spatial: {} on {} rows", describe(layer), length));
  const auto window = window_rows(layer);
  const auto padding = checked_multiply(std::int64_t{2}, layer.padding);
  std::int64_t rows = 0;
  if (layer.is_transposed) {
    const auto made = checked_add(checked_multiply(length - 1, layer.stride), window);
    rows = checked_add(made, layer.output_padding) - padding;
  } else if (const auto padded = checked_add(length, padding); padded >= window) {
    rows = (padded - window) / layer.stride + 1;
  }
  if (rows < 1) {
    throw InputError(fmt::format("spatial: {} leaves no row of {}", describe(layer), length));
  }
  return rows;
}

AxisCut output_cut(const AxisLayer& layer, const AxisCut& input) {
  require_cut(input);
  const auto length = output_length(layer, input.length());
  const auto ranks = input.ranks();
  AxisCut output{{0}};
  for (int rank = 1; rank < ranks; ++rank) {
    const auto bound = input.bounds[static_cast<std::size_t>(rank)];
    std::int64_t made = 0;
    if (!layer.is_transposed) {
      made = divide_up(bound, layer.stride);
    } else if (bound > 0) {
      // Bounds that lead back to `bound` lie in (bound s - s, bound s].
      const auto last = checked_multiply(bound, layer.stride);
      const auto even = divide_up(checked_multiply<std::int64_t>(rank, length), ranks);
      made = std::clamp(even, last - layer.stride + 1, last);
    }
    output.bounds.push_back(std::min(made, length));
  }
  output.bounds.push_back(length);
  return output;
}

LayerCut cut_layer(const AxisLayer& layer, const AxisCut& input,
                   const std::optional<AxisCut>& output) {
  LayerCut cut{
      .input = input, .output = output_cut(layer, input), .is_transposed = layer.is_transposed};
  if (output) {
    require_cut(*output);
    if (output->ranks() != input.ranks() || output->length() != cut.output.length()) {
      throw Error(fmt::format(
          "spatial: {} makes {} rows on {} ranks, but was to be cut as {} rows "
          "on {}",
          describe(layer), cut.output.length(), input.ranks(), output->length(), output->ranks()));
    }
    cut.output = *output;
  }
  const auto& coarse = layer.is_transposed ? cut.input : cut.output;
  for (int rank = 0; rank < input.ranks(); ++rank) {
    const auto owned = cut.exchanged().rows(rank);
    cut.reached.push_back(reach(layer, coarse.rows(rank), owned.begin));
  }
  cut.whole_because = obstacle_in(cut);
  cut.gathers_input = cut.is_whole();
  return cut;
}

std::vector<LayerCut> cut_layers(std::span<const AxisLayer> layers, const AxisCut& input) {
  std::vector<LayerCut> cuts;
  for (const auto& layer : layers) {
    std::optional<AxisCut> output;
    if (layer.mirrors) {
      if (!layer.is_transposed || *layer.mirrors >= cuts.size()) {
        throw Error(
            fmt::format("spatial: layer {} mirrors layer {}, expected a transposed layer "
                        "and one before it",
                        cuts.size(), *layer.mirrors));
      }
      output = cuts[*layer.mirrors].input;
    }
    cuts.push_back(cut_layer(layer, cuts.empty() ? input : cuts.back().output, output));
  }
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    if (cuts[i].is_whole()) cuts[i + 1].gathers_input = false;
  }
  return cuts;
}

RowMessages row_messages(const LayerCut& layer, int rank) {
  const auto ranks = layer.input.ranks();
  if (rank < 0 || rank >= ranks) {
    throw Error(fmt::format("spatial: rank {} of an axis cut among {}", rank, ranks));
  }
  if (layer.is_whole()) {
    throw Error(fmt::format("spatial: no rows are exchanged in a layer that is computed whole: {}",
                            layer.whole_because));
  }
  const auto below = neighbour(layer, rank, -1), above = neighbour(layer, rank, 1);
  RowMessages messages;
  const auto add = [](std::vector<RowMessage>& to, int peer, const RowRange& rows) {
    if (!rows.is_empty()) to.push_back({peer, rows});
  };
  // Rows that the rank below has above its own come from here, and the other way round.
  if (below) {
    add(messages.receives, *below, rows_below(layer, rank));
    add(messages.sends, *below, rows_above(layer, *below));
  }
  if (above) {
    add(messages.receives, *above, rows_above(layer, rank));
    add(messages.sends, *above, rows_below(layer, *above));
  }
  return messages;
}

}  // namespace kolo
