#include "kolo/layout/spatial_plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using Values = std::vector<std::int64_t>;

std::int64_t between(std::mt19937_64& random, std::int64_t least, std::int64_t most) {
  return least + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most - least + 1));
}

std::int64_t& at(Values& values, std::int64_t position) {
  return values.at(static_cast<std::size_t>(position));
}

Values random_values(std::mt19937_64& random, std::int64_t count) {
  Values values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(between(random, -9, 9));
  return values;
}

AxisLayer random_layer(std::mt19937_64& random) {
  AxisLayer layer;
  layer.kernel = between(random, 1, 7);
  layer.stride = between(random, 1, 4);
  layer.dilation = between(random, 1, 3);
  layer.padding = between(random, 0, layer.dilation * (layer.kernel - 1));
  layer.is_transposed = random() % 2 == 0;
  if (layer.is_transposed) {
    layer.output_padding = between(random, 0, std::max(layer.stride, layer.dilation) - 1);
  }
  return layer;
}

AxisCut random_cut(std::mt19937_64& random, std::int64_t length, int ranks) {
  AxisCut cut{{0}};
  for (int rank = 1; rank < ranks; ++rank) cut.bounds.push_back(between(random, 0, length));
  cut.bounds.push_back(length);
  std::ranges::sort(cut.bounds);
  return cut;
}

// A random layer that leaves at least a row of a random input. Input and, sometimes, output are cut
// in some way.
struct Case {
  AxisLayer layer;
  AxisCut input;
  std::optional<AxisCut> output;

  explicit Case(std::mt19937_64& random) {
    for (;;) {
      layer = random_layer(random);
      const auto ranks = static_cast<int>(between(random, 1, 5));
      const auto length = between(random, ranks, 40);
      input = random() % 2 == 0 ? cut_evenly(length, ranks) : random_cut(random, length, ranks);
      try {
        const auto made = output_length(layer, length);
        if (random() % 4 == 0) output = random_cut(random, made, ranks);
        return;
      } catch (const InputError&) {
      }
    }
  }

  [[nodiscard]] std::string text() const {
    return fmt::format("[{}] kernel {} stride {} padding {} dilation {}{}",
                       fmt::join(input.bounds, ","), layer.kernel, layer.stride, layer.padding,
                       layer.dilation, layer.is_transposed ? " transposed" : "");
  }
};

// Calls `visit(coarse, tap, fine)` for all that a layer connects, also beyond the borders: outputs
// with the inputs that they read, or inputs of a transposed layer with the outputs they add to.
template <typename Visit>
void for_each_tap(const AxisLayer& layer, const RowRange& coarse, const Visit& visit) {
  for (auto row = coarse.begin; row < coarse.end; ++row) {
    for (std::int64_t tap = 0; tap < layer.kernel; ++tap) {
      visit(row, tap, row * layer.stride - layer.padding + tap * layer.dilation);
    }
  }
}

// All ranks' parts of an axis, and what `extend` and `fold` do with them.
class Simulation {
 public:
  explicit Simulation(const LayerCut& layer) : layer_(layer) {}

  // Rows that each rank reads; zeros beyond the border.
  [[nodiscard]] std::vector<Values> extend(const Values& whole) const {
    Travelling travelling;
    for (int rank = 0; rank < ranks(); ++rank) {
      const auto owned = layer_.exchanged().rows(rank);
      for (const auto& message : row_messages(layer_, rank).sends) {
        EXPECT_GE(message.rows.begin, owned.begin);
        EXPECT_LE(message.rows.end, owned.end);
        const auto [position, is_new] = travelling.insert(
            {{rank, message.peer},
             {whole.begin() + message.rows.begin, whole.begin() + message.rows.end}});
        EXPECT_TRUE(is_new);
      }
    }
    std::vector<Values> parts;
    for (int rank = 0; rank < ranks(); ++rank) {
      const auto owned = layer_.exchanged().rows(rank), extended = layer_.extended(rank);
      Values part(static_cast<std::size_t>(extended.size()), 0);
      for (auto row = std::max(owned.begin, extended.begin);
           row < std::min(owned.end, extended.end); ++row) {
        at(part, row - extended.begin) = whole.at(static_cast<std::size_t>(row));
      }
      for (const auto& message : row_messages(layer_, rank).receives) {
        const auto values = take(travelling, {message.peer, rank});
        EXPECT_EQ(static_cast<std::int64_t>(values.size()), message.rows.size());
        std::ranges::copy(values, part.begin() + (message.rows.begin - extended.begin));
      }
      parts.push_back(part);
    }
    EXPECT_THAT(travelling, IsEmpty());
    return parts;
  }

  // All ranks' own rows after they have given back the rows that they made.
  [[nodiscard]] Values fold(std::vector<Values> parts) const {
    Travelling travelling;
    Values whole(static_cast<std::size_t>(layer_.exchanged().length()), 0);
    for (int rank = 0; rank < ranks(); ++rank) {
      const auto owned = layer_.exchanged().rows(rank), extended = layer_.extended(rank);
      auto& part = parts[static_cast<std::size_t>(rank)];
      for (auto row = std::max(owned.begin, extended.begin);
           row < std::min(owned.end, extended.end); ++row) {
        at(whole, row) += at(part, row - extended.begin);
      }
      for (const auto& message : row_messages(layer_, rank).receives) {
        const auto begin = part.begin() + (message.rows.begin - extended.begin);
        travelling[{rank, message.peer}] = {begin, begin + message.rows.size()};
      }
    }
    for (int rank = 0; rank < ranks(); ++rank) {
      for (const auto& message : row_messages(layer_, rank).sends) {
        auto values = take(travelling, {message.peer, rank});
        for (std::int64_t i = 0; i < message.rows.size(); ++i) {
          at(whole, message.rows.begin + i) += at(values, i);
        }
      }
    }
    EXPECT_THAT(travelling, IsEmpty());
    return whole;
  }

 private:
  using Ends = std::pair<int, int>;  // from, to
  using Travelling = std::map<Ends, Values>;

  static Values take(Travelling& travelling, const Ends& ends) {
    auto values = travelling.at(ends);
    travelling.erase(ends);
    return values;
  }
  [[nodiscard]] int ranks() const { return layer_.input.ranks(); }
  const LayerCut& layer_;
};

TEST(SpatialPlan, EvenCutsStayEvenOnLaterLevels) {
  EXPECT_THAT(cut_evenly(10, 4).bounds, ElementsAre(0, 3, 5, 8, 10));
  for (std::int64_t length = 1; length <= 130; ++length) {
    for (int ranks = 1; ranks <= std::min<std::int64_t>(length, 9); ++ranks) {
      auto cut = cut_evenly(length, ranks);
      for (int level = 0; level < 4; ++level) {
        for (int rank = 0; rank < ranks; ++rank) {
          EXPECT_THAT(cut.rows(rank).size(), AnyOf(cut.length() / ranks, cut.length() / ranks + 1));
        }
        if (length % 16 != 0) break;
        cut = output_cut({.kernel = 4, .stride = 2, .padding = 1}, cut);
        if (cut.length() >= ranks) {
          EXPECT_EQ(cut, cut_evenly(cut.length(), ranks));
        }
      }
    }
  }
}

TEST(SpatialPlan, OutputsAreOwnedByTheOwnerOfTheInputAtTheirStride) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 4000; ++i) {
    const Case each(random);
    SCOPED_TRACE(each.text());
    const auto output = output_cut(each.layer, each.input);
    EXPECT_EQ(output.bounds.size(), each.input.bounds.size());
    EXPECT_TRUE(std::ranges::is_sorted(output.bounds));
    EXPECT_EQ(output.bounds.front(), 0);
    EXPECT_EQ(output.length(), output_length(each.layer, each.input.length()));
    const auto& fine = each.layer.is_transposed ? output : each.input;
    const auto& coarse = each.layer.is_transposed ? each.input : output;
    for (int rank = 0; rank < fine.ranks(); ++rank) {
      for (auto row = coarse.rows(rank).begin; row < coarse.rows(rank).end; ++row) {
        const auto at_stride = row * each.layer.stride;
        const auto owned = fine.rows(rank);
        // Outputs beyond the end are the last rank's.
        if (at_stride >= fine.length()) continue;
        EXPECT_TRUE(at_stride >= owned.begin && at_stride < owned.end) << row;
      }
    }
  }
}

TEST(SpatialPlan, RanksReadAndMakeWhatTheirTapsReach) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 8000; ++i) {
    const Case each(random);
    SCOPED_TRACE(each.text());
    const auto cut = cut_layer(each.layer, each.input, each.output);
    const auto& coarse = each.layer.is_transposed ? cut.input : cut.output;
    for (int rank = 0; rank < each.input.ranks(); ++rank) {
      if (coarse.rows(rank).is_empty()) {
        EXPECT_TRUE(cut.extended(rank).is_empty());
        EXPECT_TRUE(cut.is_whole());
        continue;
      }
      RowRange reached{std::numeric_limits<std::int64_t>::max(), 0};
      for_each_tap(each.layer, coarse.rows(rank), [&](auto, auto, std::int64_t fine) {
        reached = {std::min(reached.begin, fine), std::max(reached.end, fine + 1)};
      });
      EXPECT_EQ(cut.extended(rank), reached) << "rank " << rank;
    }
  }
}

// Layers of integers give the same cut, with exchanged rows, as whole.
TEST(SpatialPlan, CutLayersComputeWhatWholeOnesDo) {
  std::mt19937_64 random(3);
  int computed = 0;
  for (int i = 0; i < 6000; ++i) {
    const Case each(random);
    SCOPED_TRACE(each.text());
    const auto cut = cut_layer(each.layer, each.input, each.output);
    if (cut.is_whole()) continue;
    ++computed;
    const auto fine_length = cut.exchanged().length();
    auto weight = random_values(random, each.layer.kernel);
    auto input = random_values(random, cut.input.length());
    Values whole(static_cast<std::size_t>(cut.output.length()), 0), joined;
    const auto& coarse = each.layer.is_transposed ? cut.input : cut.output;
    for_each_tap(each.layer, {0, coarse.length()},
                 [&](std::int64_t row, std::int64_t tap, std::int64_t fine) {
                   if (fine < 0 || fine >= fine_length) return;
                   const auto from = each.layer.is_transposed ? row : fine;
                   const auto to = each.layer.is_transposed ? fine : row;
                   at(whole, to) += at(weight, tap) * at(input, from);
                 });
    const Simulation ranks(cut);
    std::vector<Values> parts;
    if (!each.layer.is_transposed) parts = ranks.extend(input);
    for (int rank = 0; rank < cut.input.ranks(); ++rank) {
      const auto extended = cut.extended(rank), rows = coarse.rows(rank);
      if (each.layer.is_transposed) parts.emplace_back(extended.size(), 0);
      auto& part = parts.back();
      Values made(static_cast<std::size_t>(rows.size()), 0);
      for_each_tap(each.layer, rows, [&](std::int64_t row, std::int64_t tap, std::int64_t fine) {
        if (each.layer.is_transposed) {
          at(part, fine - extended.begin) += at(weight, tap) * at(input, row);
        } else {
          at(made, row - rows.begin) +=
              at(weight, tap) * at(parts[static_cast<std::size_t>(rank)], fine - extended.begin);
        }
      });
      if (!each.layer.is_transposed) joined.insert(joined.end(), made.begin(), made.end());
    }
    if (each.layer.is_transposed) joined = ranks.fold(parts);
    EXPECT_EQ(joined, whole);
  }
  EXPECT_GT(computed, 1500);
}

TEST(SpatialPlan, SmallLevelsAreComputedWhole) {
  const auto because = [](const AxisLayer& layer, std::int64_t rows, int ranks) {
    return cut_layer(layer, cut_evenly(rows, ranks)).whole_because;
  };
  EXPECT_EQ(because({4, 2, 1}, 8, 4), "");
  EXPECT_EQ(because({4, 2, 1}, 4, 4), "rank 1 has no output row");
  EXPECT_EQ(because({7, 2, 3}, 8, 4), "rank 1 exchanges 3 rows with rank 0, which has 2");
  EXPECT_EQ(because({5, 1, 2}, 5, 5), "rank 0 exchanges 2 rows with rank 1, which has 1");
  EXPECT_EQ(because({5, 1, 2}, 5, 1), "");
  const auto whole = cut_layer({4, 2, 1}, cut_evenly(4, 4));
  EXPECT_TRUE(whole.gathers_input);
  EXPECT_TRUE(says(message_of<Error>([&] { (void)row_messages(whole, 0); }),
                   {"computed whole: rank 1 has no output row"}));
  const auto halves = cut_layer({3, 1, 1}, cut_evenly(4, 2));
  EXPECT_TRUE(says(message_of<Error>([&] { (void)row_messages(halves, 2); }),
                   {"rank 2 of an axis cut among 2"}));
}

// A U-Net: layers that halve, and transposed ones that lead back and mirror them.
std::vector<AxisLayer> unet(std::size_t levels, std::int64_t length) {
  std::vector<AxisLayer> layers(levels, {.kernel = 4, .stride = 2, .padding = 1});
  std::vector<std::int64_t> lengths{length};
  for (const auto& layer : layers) lengths.push_back(output_length(layer, lengths.back()));
  for (std::size_t level = levels; level-- > 0;) {
    layers.push_back({.kernel = 4,
                      .stride = 2,
                      .padding = 1,
                      .is_transposed = true,
                      .output_padding = lengths[level] - 2 * lengths[level + 1],
                      .mirrors = level});
  }
  return layers;
}

TEST(SpatialPlan, ADecoderTakesTheCutsOfItsEncoder) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 200; ++i) {
    const auto levels = static_cast<std::size_t>(between(random, 1, 6));
    const auto ranks = static_cast<int>(between(random, 1, 8));
    const auto length = between(random, std::max<std::int64_t>(ranks, 1 << levels), 300);
    const auto cuts = cut_layers(unet(levels, length), cut_evenly(length, ranks));
    ASSERT_EQ(cuts.size(), 2 * levels);
    for (std::size_t level = 0; level < levels; ++level) {
      const auto& down = cuts[level];
      const auto& up = cuts[cuts.size() - 1 - level];
      EXPECT_EQ(up.output, down.input);
      EXPECT_EQ(up.input, down.output);
      EXPECT_EQ(up.reached, down.reached);
      EXPECT_EQ(up.is_whole(), down.is_whole());
      EXPECT_EQ(down.gathers_input, down.is_whole() && (level == 0 || !cuts[level - 1].is_whole()));
      EXPECT_FALSE(up.gathers_input);
    }
  }
}

TEST(SpatialPlan, RefusesWhatCannotBe) {
  const auto refusal = [](const AxisLayer& layer, std::int64_t length) {
    return message_of<InputError>([&] { (void)output_length(layer, length); });
  };
  EXPECT_EQ(message_of<InputError>([] { (void)cut_evenly(3, 4); }),
            "spatial: 3 rows can't be cut among 4 ranks; cut this axis in 3 or less");
  EXPECT_EQ(refusal({7, 2, 0}, 4),
            "spatial: a layer of kernel 7, stride 2, padding 0, dilation 1 leaves no row of 4");
  EXPECT_EQ(refusal({3, 1, 3}, 4),
            "spatial: a layer of kernel 3, stride 1, padding 3, dilation 1, expected a padding "
            "from 0 to 2, dilation x (kernel - 1)");
  EXPECT_TRUE(says(refusal({3, 0, 1}, 4), {"kernel, stride and dilation of 1 or more"}));
  EXPECT_TRUE(says(refusal({.kernel = 3, .output_padding = 1}, 4),
                   {"an output padding from 0 to 0, got 1"}));
  EXPECT_TRUE(says(refusal({3, 1, 1}, 0), {"on 0 rows"}));
  constexpr auto huge = std::numeric_limits<std::int64_t>::max();
  const AxisLayer far{3, 1, 2, huge};
  EXPECT_TRUE(says(message_of<Error>([&] { (void)output_length(far, 4); }), {"size overflow"}));
}

TEST(SpatialPlan, RefusesCutsThatDoNotFit) {
  const AxisLayer up{.kernel = 4, .stride = 2, .padding = 1, .is_transposed = true};
  EXPECT_TRUE(
      says(message_of<Error>([&] { (void)cut_layer(up, cut_evenly(4, 2), cut_evenly(7, 2)); }),
           {"makes 8 rows on 2 ranks, but was to be cut as 7 rows on 2"}));
  const AxisCut falling{{0, 3, 2}};
  EXPECT_TRUE(says(message_of<Error>([&] { (void)cut_layer(up, falling); }), {"must rise from 0"}));
  auto mirroring = up;
  mirroring.mirrors = 0;
  EXPECT_TRUE(
      says(message_of<Error>([&] { (void)cut_layers(std::vector{mirroring}, cut_evenly(4, 2)); }),
           {"layer 0 mirrors layer 0"}));
}

}  // namespace
}  // namespace kolo::testing
