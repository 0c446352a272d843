#include "kolo/layout/tiles.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

std::string nearest_multiples(std::int64_t length, std::int64_t multiple) {
  const auto below = length / multiple * multiple;
  return below == 0 ? fmt::to_string(multiple) : fmt::format("{} or {}", below, below + multiple);
}

namespace {

// The inputs of a layer that outputs [begin, end) depend on.
RowRange inputs_of(const AxisLayer& layer, const RowRange& outputs) {
  const auto window = window_rows(layer);
  if (!layer.is_transposed) {
    return {checked_multiply(outputs.begin, layer.stride) - layer.padding,
            checked_add(checked_multiply(outputs.end - 1, layer.stride) - layer.padding, window)};
  }
  // Input i makes outputs i s - p to i s - p + window - 1.
  return {divide_up(outputs.begin + layer.padding - (window - 1), layer.stride),
          divide_down(outputs.end - 1 + layer.padding, layer.stride) + 1};
}

RowRange joined(const RowRange& one, const RowRange& other) {
  return {std::min(one.begin, other.begin), std::max(one.end, other.end)};
}

[[noreturn]] void refuse_layer(std::size_t layer, const std::string& what) {
  throw InputError(fmt::format("tiles: layer {} {}", layer, what));
}

// Cells per row of each layer's input, and of the last one's output.
std::vector<std::int64_t> scales_of(std::span<const AxisLayer> layers) {
  std::vector<std::int64_t> scales{1};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto& layer = layers[i];
    const auto scale = scales.back();
    if (layer.mirrors && (*layer.mirrors >= i || !layer.is_transposed)) {
      refuse_layer(i, fmt::format("mirrors layer {}, expected a transposed layer and one before it",
                                  *layer.mirrors));
    }
    if (layer.is_transposed && scale % layer.stride != 0) {
      refuse_layer(i,
                   fmt::format("is transposed, of stride {}, and takes rows of {} cells, expected "
                               "a multiple",
                               layer.stride, scale));
    }
    scales.push_back(layer.is_transposed ? scale / layer.stride
                                         : checked_multiply(scale, layer.stride));
    if (layer.mirrors && scales.back() != scales[*layer.mirrors]) {
      refuse_layer(i,
                   fmt::format("makes rows of {} cells, but mirrors layer {}, which takes rows of "
                               "{}",
                               scales.back(), *layer.mirrors, scales[*layer.mirrors]));
    }
  }
  if (scales.back() != 1)
    refuse_layer(layers.size() - 1, fmt::format("ends with rows of {} cells, expected as many rows "
                                                "as there are cells",
                                                scales.back()));
  return scales;
}

// Checks that a tile of so many multiples has everywhere the rows that its part of the whole has.
void require_lengths(std::span<const AxisLayer> layers, std::span<const std::int64_t> scales,
                     std::int64_t multiple) {
  constexpr std::int64_t most_multiples = 4;
  for (std::int64_t count = 1; count <= most_multiples; ++count) {
    const auto cells = checked_multiply(count, multiple);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const auto taken = cells / scales[i], expected = cells / scales[i + 1];
      const auto made = output_length(layers[i], taken);
      if (made == expected) continue;
      refuse_layer(i, fmt::format("makes {} rows of {}, expected {}, as its stride says: a padding "
                                  "that makes up for the kernel",
                                  made, taken, expected));
    }
  }
}

void require_multiple(std::string_view what, std::int64_t length, std::int64_t multiple) {
  if (length > 0 && length % multiple == 0) return;
  throw InputError(fmt::format("{} of {} cells, expected a multiple of {}, as {}", what, length,
                               multiple, nearest_multiples(length, multiple)));
}

// Stretch of an axis: the rows read for `core` rows.
struct AxisStretch {
  RowRange read, core;
};

std::vector<AxisStretch> cut_axis(std::int64_t length, std::int64_t core, const AxisReach& reach) {
  std::vector<AxisStretch> stretches;
  for (std::int64_t begin = 0; begin < length; begin += core) {
    const auto end = std::min(begin + core, length);
    stretches.push_back({{std::max(begin - reach.margin_below(), std::int64_t{0}),
                          std::min(end + reach.margin_above(), length)},
                         {begin, end}});
  }
  return stretches;
}

// Length of cores along an axis.
struct AxisChoice {
  std::int64_t core = 0, stretches = 0;
  std::int64_t longest = 0, sum = 0;  // of what is read
};

std::vector<AxisChoice> axis_choices(std::int64_t length, const AxisReach& reach) {
  const auto blocks = length / reach.multiple;
  std::vector<AxisChoice> choices;
  for (auto per_core = blocks; per_core >= 1; --per_core) {
    const auto count = divide_up(blocks, per_core);
    // The shortest cores of a count are the evenest.
    if (per_core > 1 && divide_up(blocks, per_core - 1) == count) continue;
    AxisChoice choice{per_core * reach.multiple, count};
    for (const auto& stretch : cut_axis(length, choice.core, reach)) {
      choice.longest = std::max(choice.longest, stretch.read.size());
      choice.sum += stretch.read.size();
    }
    choices.push_back(choice);
  }
  return choices;
}

std::int64_t most_dealt(std::span<const Tile> tiles, int ranks) {
  std::int64_t most = 0;
  for (const auto& mine : deal_tiles(tiles, ranks)) {
    std::int64_t cells = 0;
    for (const auto tile : mine) cells = checked_add(cells, tiles[tile].cells());
    most = std::max(most, cells);
  }
  return most;
}

}  // namespace

std::int64_t AxisReach::margin_below() const {
  return divide_up(below, multiple) * multiple;
}

std::int64_t AxisReach::margin_above() const {
  return divide_up(above, multiple) * multiple;
}

AxisReach reach_of(std::span<const AxisLayer> layers) {
  const auto scales = scales_of(layers);
  AxisReach reach;
  for (const auto scale : scales) reach.multiple = std::lcm(reach.multiple, scale);
  require_lengths(layers, scales, reach.multiple);
  // Rows that are needed of each layer's input for one multiple of outputs, from the last one back.
  std::vector<RowRange> needed(layers.size() + 1, {0, 0});
  std::vector<bool> is_needed(layers.size() + 1, false);
  needed.back() = {0, reach.multiple};
  const auto need = [&](std::size_t input, const RowRange& rows) {
    needed[input] = is_needed[input] ? joined(needed[input], rows) : rows;
    is_needed[input] = true;
    reach.below = std::max(reach.below, -needed[input].begin * scales[input]);
    reach.above = std::max(reach.above, needed[input].end * scales[input] - reach.multiple);
  };
  for (auto i = layers.size(); i-- > 0;) {
    if (layers[i].mirrors) need(*layers[i].mirrors, needed[i + 1]);
    need(i, inputs_of(layers[i], needed[i + 1]));
  }
  return reach;
}

std::int64_t Tile::cells() const {
  return checked_multiply(checked_multiply(read[0].size(), read[1].size()), read[2].size());
}

std::vector<Tile> cut_in_tiles(std::int64_t length, const std::array<std::int64_t, 3>& core,
                               const AxisReach& reach) {
  require_multiple("tiles: a cube with edges", length, reach.multiple);
  for (const auto rows : core) require_multiple("tiles: a tile", rows, reach.multiple);
  const auto first = cut_axis(length, core[0], reach), second = cut_axis(length, core[1], reach),
             third = cut_axis(length, core[2], reach);
  std::vector<Tile> tiles;
  for (const auto& a : first) {
    for (const auto& b : second) {
      for (const auto& c : third)
        tiles.push_back({{a.read, b.read, c.read}, {a.core, b.core, c.core}});
    }
  }
  return tiles;
}

std::optional<std::array<std::int64_t, 3>> choose_core(std::int64_t length, const AxisReach& reach,
                                                       std::int64_t most_cells, int ranks) {
  require_multiple("tiles: a cube with edges", length, reach.multiple);
  const auto choices = axis_choices(length, reach);
  std::optional<std::array<std::int64_t, 3>> best;
  std::int64_t least = 0, fewest = 0;
  for (std::size_t c = 0; c < choices.size(); ++c) {
    for (std::size_t b = c; b < choices.size(); ++b) {
      for (std::size_t a = b; a < choices.size(); ++a) {
        const std::array along{choices[a], choices[b], choices[c]};
        const auto product = [&](auto member) {
          return checked_multiply(checked_multiply(along[0].*member, along[1].*member),
                                  along[2].*member);
        };
        if (product(&AxisChoice::longest) > most_cells) continue;
        // No sharing can be better than an even one.
        const auto tiles = product(&AxisChoice::stretches);
        const auto even = divide_up(product(&AxisChoice::sum), ranks);
        if (best && (even > least || (even == least && tiles >= fewest))) continue;
        const std::array core{along[0].core, along[1].core, along[2].core};
        const auto most = most_dealt(cut_in_tiles(length, core, reach), ranks);
        if (best && (most > least || (most == least && tiles >= fewest))) continue;
        best = core;
        least = most;
        fewest = tiles;
      }
    }
  }
  return best;
}

std::vector<std::vector<std::size_t>> deal_tiles(std::span<const Tile> tiles, int ranks) {
  if (ranks < 1) throw Error(fmt::format("tiles: shared among {} ranks", ranks));
  std::vector<std::size_t> largest_first(tiles.size());
  std::iota(largest_first.begin(), largest_first.end(), std::size_t{0});
  std::ranges::stable_sort(largest_first, [&](std::size_t one, std::size_t other) {
    return tiles[one].cells() > tiles[other].cells();
  });
  using Load = std::pair<std::int64_t, std::size_t>;  // cells, rank: of equals the lowest rank
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  std::vector<std::vector<std::size_t>> parts(static_cast<std::size_t>(ranks));
  for (std::size_t rank = 0; rank < parts.size(); ++rank) loads.push({0, rank});
  for (const auto tile : largest_first) {
    const auto [cells, rank] = loads.top();
    loads.pop();
    parts[rank].push_back(tile);
    loads.push({checked_add(cells, tiles[tile].cells()), rank});
  }
  for (auto& part : parts) std::ranges::sort(part);
  return parts;
}

}  // namespace kolo
