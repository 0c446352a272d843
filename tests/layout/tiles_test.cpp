#include "kolo/layout/tiles.h"

#include <algorithm>
#include <limits>
#include <random>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

// Whole numbers that wrap round, so that sums are exact in any order.
using Numbers = std::vector<std::uint64_t>;

std::int64_t drawn(std::mt19937_64& random, std::int64_t least, std::int64_t most) {
  return least + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most - least + 1));
}

std::size_t slot(std::int64_t row) {
  return static_cast<std::size_t>(row);
}

std::int64_t length_of(const Numbers& numbers) {
  return static_cast<std::int64_t>(numbers.size());
}

struct WeighedLayer {
  AxisLayer layer;
  Numbers weights;
};

// As LibTorch defines them, with zeros beyond the border and a bias of 1.
Numbers forward(const WeighedLayer& weighed, const Numbers& input) {
  const auto& layer = weighed.layer;
  Numbers output(slot(output_length(layer, length_of(input))), 1);
  const auto add = [&](std::int64_t to, std::int64_t from, std::int64_t tap) {
    if (to < 0 || to >= length_of(output) || from < 0 || from >= length_of(input)) return;
    output[slot(to)] += weighed.weights[slot(tap)] * input[slot(from)];
  };
  for (std::int64_t tap = 0; tap < layer.kernel; ++tap) {
    const auto shift = tap * layer.dilation - layer.padding;
    if (layer.is_transposed) {
      for (std::int64_t i = 0; i < length_of(input); ++i) add(i * layer.stride + shift, i, tap);
    } else {
      for (std::int64_t o = 0; o < length_of(output); ++o) add(o, o * layer.stride + shift, tap);
    }
  }
  return output;
}

// All layers, with the inputs of mirrored ones added.
Numbers forward(const std::vector<WeighedLayer>& layers, const Numbers& input) {
  std::vector<Numbers> inputs{input};
  for (const auto& weighed : layers) {
    auto output = forward(weighed, inputs.back());
    if (weighed.layer.mirrors) {
      const auto& earlier = inputs[*weighed.layer.mirrors];
      EXPECT_EQ(output.size(), earlier.size());
      for (std::size_t i = 0; i < output.size(); ++i) output[i] += 3 * earlier[i];
    }
    inputs.push_back(std::move(output));
  }
  return inputs.back();
}

std::vector<AxisLayer> layers_of(const std::vector<WeighedLayer>& weighed) {
  std::vector<AxisLayer> layers;
  for (const auto& one : weighed) layers.push_back(one.layer);
  return layers;
}

WeighedLayer with_weights(std::mt19937_64& random, const AxisLayer& layer) {
  WeighedLayer weighed{layer, {}};
  for (std::int64_t i = 0; i < layer.kernel; ++i) weighed.weights.push_back(random() | 1U);
  return weighed;
}

// A layer that makes length / stride rows, or length x stride where it is transposed.
AxisLayer random_layer_of(std::mt19937_64& random, std::int64_t stride, bool is_transposed) {
  for (;;) {
    AxisLayer layer{.kernel = drawn(random, 1, 6),
                    .stride = stride,
                    .dilation = drawn(random, 1, 2),
                    .is_transposed = is_transposed};
    const auto reach = layer.dilation * (layer.kernel - 1);
    layer.padding = drawn(random, 0, reach);
    if (is_transposed)
      layer.output_padding = drawn(random, 0, std::max(stride, layer.dilation) - 1);
    constexpr std::int64_t halves = 12;
    const auto length = halves * stride;
    if (length + 2 * layer.padding <= reach && !is_transposed) continue;
    const auto expected = is_transposed ? length * stride : length / stride;
    if (output_length(layer, length) == expected) return layer;
  }
}

// Down and up again, with a level's input joined where the way up comes back to it, or not.
std::vector<WeighedLayer> random_stack(std::mt19937_64& random, std::int64_t levels) {
  std::vector<WeighedLayer> stack;
  std::vector<std::pair<std::size_t, std::int64_t>> downs;
  const auto add = [&](AxisLayer layer) { stack.push_back(with_weights(random, layer)); };
  for (std::int64_t level = 0; level < levels; ++level) {
    if (random() % 3 == 0) add(random_layer_of(random, 1, false));
    const auto stride = drawn(random, 2, 3);
    downs.emplace_back(stack.size(), stride);
    add(random_layer_of(random, stride, false));
  }
  while (!downs.empty()) {
    auto layer = random_layer_of(random, downs.back().second, true);
    if (random() % 4 != 0) layer.mirrors = downs.back().first;
    add(layer);
    downs.pop_back();
    if (random() % 3 == 0) add(random_layer_of(random, 1, false));
  }
  return stack;
}

// A U-Net's.
std::vector<AxisLayer> halving(std::size_t levels) {
  const AxisLayer down{.kernel = 4, .stride = 2, .padding = 1};
  std::vector<AxisLayer> layers(levels, down);
  for (std::size_t level = levels; level-- > 0;) {
    auto up = down;
    up.is_transposed = true;
    if (level > 0) up.mirrors = level;
    layers.push_back(up);
  }
  return layers;
}

Numbers random_numbers(std::mt19937_64& random, std::int64_t count) {
  Numbers numbers(slot(count));
  for (auto& number : numbers) number = random();
  return numbers;
}

// Outputs of the tiles of one axis, put together.
Numbers by_tiles(const std::vector<WeighedLayer>& stack, const Numbers& input, std::int64_t core,
                 const AxisReach& reach) {
  Numbers output(input.size());
  // Along the other axes there is one tile.
  const auto whole = length_of(input);
  for (const auto& tile : cut_in_tiles(whole, {core, whole, whole}, reach)) {
    const auto &read = tile.read[0], &kept = tile.core[0];
    const auto made = forward(stack, Numbers(input.begin() + read.begin, input.begin() + read.end));
    std::copy_n(made.begin() + (kept.begin - read.begin), kept.size(), output.begin() + kept.begin);
  }
  return output;
}

TEST(Reach, OfHalvingLayersIsAsTheirKernelsSay) {
  EXPECT_EQ(reach_of({}), (AxisReach{0, 0, 1}));
  EXPECT_EQ(reach_of(halving(1)), (AxisReach{3, 3, 2}));
  EXPECT_EQ(reach_of(halving(2)), (AxisReach{7, 7, 4}));
  const auto six = reach_of(halving(6));
  EXPECT_EQ(six, (AxisReach{127, 127, 64}));
  EXPECT_EQ(six.margin_below(), 128);
  EXPECT_EQ(cut_in_tiles(1024, {256, 256, 256}, six)[21].cells(), 512LL * 512 * 512);
  const std::vector<AxisLayer> shifted{{.kernel = 4, .padding = 2, .output_padding = 0},
                                       {.kernel = 3, .padding = 0}};
  EXPECT_THROW((void)reach_of(shifted), InputError) << "one row more, then two less";
}

TEST(Reach, TilesMakeExactlyWhatTheWholeDoes) {
  std::mt19937_64 random(20);
  for (int trial = 0; trial < 300; ++trial) {
    const auto stack = random_stack(random, drawn(random, 0, 3));
    const auto reach = reach_of(layers_of(stack));
    const auto blocks = drawn(random, 1, 12);
    const auto input = random_numbers(random, blocks * reach.multiple);
    const auto core = drawn(random, 1, blocks) * reach.multiple;
    EXPECT_EQ(by_tiles(stack, input, core, reach), forward(stack, input))
        << "trial " << trial << ", " << stack.size() << " layers";
  }
}

// One multiple less on either side makes other numbers.
TEST(Reach, IsNoMoreThanNeeded) {
  std::mt19937_64 random(21);
  for (std::size_t levels = 1; levels <= 4; ++levels) {
    std::vector<WeighedLayer> stack;
    for (const auto& layer : halving(levels)) stack.push_back(with_weights(random, layer));
    const auto reach = reach_of(layers_of(stack));
    const auto input = random_numbers(random, 8 * reach.multiple);
    const auto whole = forward(stack, input);
    const auto core = 2 * reach.multiple;
    auto less = reach;
    less.below -= reach.multiple;
    EXPECT_NE(by_tiles(stack, input, core, less), whole);
    less = reach;
    less.above -= reach.multiple;
    EXPECT_NE(by_tiles(stack, input, core, less), whole);
    // To the cell: the first input that the output next to it sees, and the one before it.
    const auto at = 4 * reach.multiple;
    for (const auto& [cell, is_seen] :
         {std::pair{at - reach.below, true}, std::pair{at - reach.below - 1, false}}) {
      auto changed = input;
      ++changed[slot(cell)];
      const auto made = forward(stack, changed);
      EXPECT_EQ(!std::equal(made.begin() + at, made.end(), whole.begin() + at), is_seen) << levels;
    }
  }
}

TEST(Reach, RefusesWhatTilesCantCompute) {
  const auto message = [](const std::vector<AxisLayer>& layers) {
    return message_of<InputError>([&] { (void)reach_of(layers); });
  };
  const AxisLayer down{.kernel = 4, .stride = 2, .padding = 1};
  auto up = down;
  up.is_transposed = true;
  EXPECT_TRUE(says(message({down}), {"ends with rows of 2 cells"}));
  EXPECT_TRUE(says(message({{.kernel = 2, .padding = 1}}), {"makes 2 rows of 1, expected 1"}));
  EXPECT_TRUE(says(message({up}), {"layer 0 is transposed, of stride 2"}));
  auto wrong = up;
  wrong.mirrors = 1;
  EXPECT_TRUE(says(message({down, down, up, wrong}), {"mirrors layer 1"}));
}

TEST(Tiles, CoverTheCubeOnceAndBeginAtMultiples) {
  std::mt19937_64 random(22);
  for (int trial = 0; trial < 100; ++trial) {
    const auto reach = reach_of(halving(slot(drawn(random, 1, 3))));
    const auto length = drawn(random, 1, 6) * reach.multiple;
    std::array<std::int64_t, 3> core{};
    for (auto& rows : core) rows = drawn(random, 1, 7) * reach.multiple;
    std::vector<int> counts(slot(length * length * length));
    for (const auto& tile : cut_in_tiles(length, core, reach)) {
      std::int64_t cells = 1;
      for (std::size_t axis = 0; axis < 3; ++axis) {
        const auto &read = tile.read[axis], &kept = tile.core[axis];
        EXPECT_EQ(read.begin, std::max<std::int64_t>(0, kept.begin - reach.margin_below()));
        EXPECT_EQ(read.end, std::min(length, kept.end + reach.margin_above()));
        EXPECT_EQ(read.begin % reach.multiple, 0);
        EXPECT_LE(kept.size(), core[axis]);
        cells *= read.size();
      }
      EXPECT_EQ(tile.cells(), cells);
      for (auto i = tile.core[0].begin; i < tile.core[0].end; ++i)
        for (auto j = tile.core[1].begin; j < tile.core[1].end; ++j)
          for (auto k = tile.core[2].begin; k < tile.core[2].end; ++k)
            ++counts[slot((i * length + j) * length + k)];
    }
    EXPECT_TRUE(std::ranges::all_of(counts, [](int count) { return count == 1; }));
  }
}

TEST(Tiles, RefuseOtherLengths) {
  const auto reach = reach_of(halving(3));
  const auto message = [&](std::int64_t length, std::int64_t core) {
    return message_of<InputError>([&] { (void)cut_in_tiles(length, {core, core, core}, reach); });
  };
  EXPECT_TRUE(says(message(20, 8), {"20 cells, expected a multiple of 8", "16 or 24"}));
  EXPECT_TRUE(says(message(24, 12), {"a tile of 12 cells, expected a multiple of 8"}));
  EXPECT_TRUE(says(message(3, 8), {"multiple of 8, as 8"}));
  EXPECT_TRUE(says(message(24, 0), {"a tile of 0 cells"}));
}

// Cells that each rank reads.
std::vector<std::int64_t> loads_of(const std::vector<Tile>& tiles, int ranks) {
  std::vector<std::int64_t> loads;
  for (const auto& share : deal_tiles(tiles, ranks)) {
    auto& load = loads.emplace_back();
    for (const auto tile : share) load += tiles[tile].cells();
  }
  return loads;
}

std::int64_t largest_of(const std::vector<Tile>& tiles) {
  return std::ranges::max(tiles, {}, &Tile::cells).cells();
}

TEST(Tiles, AreSharedSoThatNobodyHasMuchMore) {
  std::mt19937_64 random(23);
  for (int trial = 0; trial < 100; ++trial) {
    const auto reach = reach_of(halving(slot(drawn(random, 1, 2))));
    const auto length = drawn(random, 1, 9) * reach.multiple;
    const auto core = drawn(random, 1, 3) * reach.multiple;
    const auto tiles = cut_in_tiles(length, {core, core, core}, reach);
    const int ranks = static_cast<int>(drawn(random, 1, 5));
    std::vector<int> times(tiles.size());
    const auto shares = deal_tiles(tiles, ranks);
    ASSERT_EQ(shares.size(), slot(ranks));
    for (const auto& share : shares) {
      EXPECT_TRUE(std::ranges::is_sorted(share));
      for (const auto tile : share) ++times[tile];
    }
    EXPECT_TRUE(std::ranges::all_of(times, [](int count) { return count == 1; }));
    // The last tile went to the rank that had least.
    const auto loads = loads_of(tiles, ranks);
    EXPECT_LE(std::ranges::max(loads) - std::ranges::min(loads), largest_of(tiles));
  }
  EXPECT_THROW((void)deal_tiles({}, 0), Error);
}

// The best of all cores, tried one by one.
std::int64_t least_of_all(std::int64_t length, const AxisReach& reach, std::int64_t most_cells,
                          int ranks) {
  auto least = std::numeric_limits<std::int64_t>::max();
  for (auto a = reach.multiple; a <= length; a += reach.multiple) {
    for (auto b = reach.multiple; b <= length; b += reach.multiple) {
      for (auto c = reach.multiple; c <= length; c += reach.multiple) {
        const auto tiles = cut_in_tiles(length, {a, b, c}, reach);
        if (largest_of(tiles) <= most_cells)
          least = std::min(least, std::ranges::max(loads_of(tiles, ranks)));
      }
    }
  }
  return least;
}

TEST(Tiles, AreChosenAsLargeAsFitsAndForAllRanks) {
  const auto reach = reach_of(halving(2));
  for (const std::int64_t length : {4, 24, 36}) {
    for (const int ranks : {1, 2, 3}) {
      for (const std::int64_t edge : {10, 18, 24, 100}) {
        const auto most_cells = edge * edge * edge;
        const auto core = choose_core(length, reach, most_cells, ranks);
        const auto best = least_of_all(length, reach, most_cells, ranks);
        const auto where = fmt::format("{} cells, {} ranks, tiles of {}", length, ranks, edge);
        ASSERT_EQ(core.has_value(), best != std::numeric_limits<std::int64_t>::max()) << where;
        if (!core) continue;
        const auto tiles = cut_in_tiles(length, *core, reach);
        EXPECT_LE(largest_of(tiles), most_cells) << where;
        // Not all lengths are tried, only the evenest of each number of parts.
        const auto most = std::ranges::max(loads_of(tiles, ranks));
        EXPECT_LE(static_cast<double>(most), 1.1 * static_cast<double>(best)) << where;
      }
    }
  }
  EXPECT_THAT(choose_core(64, reach, 64 * 64 * 64, 1).value(), ElementsAre(64, 64, 64));
  EXPECT_THAT(choose_core(64, reach, 64 * 64 * 64, 2).value(), ElementsAre(32, 64, 64));
  EXPECT_FALSE(choose_core(64, reach, 8 * 8 * 8, 1));
}

// Many small tiles of a large box are found at once.
TEST(Tiles, AreChosenForLargeBoxesToo) {
  const auto one = reach_of(halving(1));
  const auto core = choose_core(1024, one, 32 * 32 * 32, 7);
  ASSERT_TRUE(core);
  EXPECT_GE((*core)[2], 12);
  const auto six = choose_core(4096, reach_of(halving(6)), 512LL * 512 * 512, 16);
  ASSERT_TRUE(six);
  EXPECT_LE(cut_in_tiles(4096, *six, reach_of(halving(6)))[0].cells(), 512LL * 512 * 512);
}

}  // namespace
}  // namespace kolo::testing
