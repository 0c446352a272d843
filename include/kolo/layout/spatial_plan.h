#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/base/checked.h"

namespace kolo {

// Domain decomposition along one axis: which rows of it a rank owns, which rows of its neighbours a
// layer needs, and who sends which rows to whom. A sample cut along several axes has a plan for
// each; axes are exchanged one after another, the later ones with the rows received before, so that
// corners need no messages of their own. All functions are pure, so that ranks which agree on the
// layers agree on the plans.
//
// Two functions move rows, each the other's adjoint, and so the other's backward pass:
//   extend   from the rows that a rank owns to those that it reads: crops, fetches rows of
//            neighbours, fills rows beyond the border as the caller says;
//   fold     from the rows that a rank has made to those that it owns: sends rows back to their
//            owners, who add them; drops rows beyond the border.
// A convolution or pooling extends its input and runs without padding. A transposed convolution
// runs without padding and folds its output, before the bias.

// The quotient of any number and a positive divisor, rounded towards minus infinity.
[[nodiscard]] constexpr std::int64_t divide_down(std::int64_t number, std::int64_t divisor) {
  return number / divisor - (number % divisor < 0 ? 1 : 0);
}

// Rows [begin, end) of an axis.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] std::int64_t size() const { return end - begin; }
  [[nodiscard]] bool is_empty() const { return begin >= end; }
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

// An axis cut among ranks: rank r owns rows [bounds[r], bounds[r + 1]), which may be none.
struct AxisCut {
  std::vector<std::int64_t> bounds;  // from 0 to the length, never falling

  [[nodiscard]] int ranks() const { return static_cast<int>(bounds.size()) - 1; }
  [[nodiscard]] std::int64_t length() const { return bounds.back(); }
  [[nodiscard]] RowRange rows(int rank) const {
    const auto index = static_cast<std::size_t>(rank);
    return {bounds[index], bounds[index + 1]};
  }
  friend bool operator==(const AxisCut&, const AxisCut&) = default;
};

// Cut at ceil(r length / ranks): parts differ by one row at most, also after layers with strides,
// since ceil(ceil(x) / s) is ceil(x / s). InputError for fewer rows than ranks.
[[nodiscard]] AxisCut cut_evenly(std::int64_t length, int ranks);

// A layer along one axis: a convolution, a pooling or a transposed convolution, with the
// arguments that LibTorch gives them.
struct AxisLayer {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  bool is_transposed = false;
  std::int64_t output_padding = 0;  // of a transposed layer
  // For a transposed layer among several: the earlier layer whose input is as long and cut as this
  // one's output, so that both can be concatenated.
  std::optional<std::size_t> mirrors = std::nullopt;
};

// Rows from the first that a window of the layer reads to one past its last.
[[nodiscard]] std::int64_t window_rows(const AxisLayer& layer);

// Number of rows that a layer makes of `length` rows. InputError for an impossible layer (a length
// below 1; padding above dilation (kernel - 1), with which outputs would see nothing but padding)
// or one that leaves no row.
[[nodiscard]] std::int64_t output_length(const AxisLayer& layer, std::int64_t length);

// Cut of a layer's output, given its input's. Output o of a layer with stride s belongs to the
// owner of input o s: bounds are ceil(bound / s); outputs beyond the last input are the last
// rank's. A transposed layer gets the evenest of the bounds that would lead back to its input's.
[[nodiscard]] AxisCut output_cut(const AxisLayer& layer, const AxisCut& input);

// A layer among ranks.
struct LayerCut {
  AxisCut input;
  AxisCut output;
  bool is_transposed = false;
  // Rows that each rank reads (extend) or has made (fold), of the cut that is exchanged; at a
  // border also below 0 and above the length. For rows [c, d) of the other side these are [c s - p,
  // (d - 1) s - p + D (k - 1) + 1), with stride s, padding p, dilation D and kernel k.
  std::vector<RowRange> reached;
  // Reason why it can't be computed in parts, so that all ranks compute all of it: a rank has no
  // rows, or a halo exceeds the neighbour's rows; "" otherwise.
  std::string whole_because;
  // The first of several whole layers gathers the parts.
  bool gathers_input = false;

  [[nodiscard]] bool is_whole() const { return !whole_because.empty(); }
  // The side that is extended (the input) or folded (a transposed layer's output).
  [[nodiscard]] const AxisCut& exchanged() const { return is_transposed ? output : input; }
  [[nodiscard]] const RowRange& extended(int rank) const {
    return reached[static_cast<std::size_t>(rank)];
  }
};

// Cuts one layer. A given `output` replaces output_cut(); Error if its length or number of ranks is
// another. Costs O(ranks).
[[nodiscard]] LayerCut cut_layer(const AxisLayer& layer, const AxisCut& input,
                                 const std::optional<AxisCut>& output = std::nullopt);

// Cuts layers each of which takes the output of the one before. Error if a layer mirrors none
// before it or one of another length.
[[nodiscard]] std::vector<LayerCut> cut_layers(std::span<const AxisLayer> layers,
                                               const AxisCut& input);

struct RowMessage {
  int peer = 0;  // the rank below or above
  RowRange rows;

  friend bool operator==(const RowMessage&, const RowMessage&) = default;
};

// Messages of a rank in extend, one per peer at most; in fold it sends the rows of `receives`, and
// receives those of `sends` and adds them in this order, so that sums have the same bits each time.
struct RowMessages {
  std::vector<RowMessage> sends;     // rows that the rank owns
  std::vector<RowMessage> receives;  // rows of extended(rank)
};

// Error for a layer that is computed whole, and for a rank outside 0 .. ranks - 1.
[[nodiscard]] RowMessages row_messages(const LayerCut& layer, int rank);

}  // namespace kolo
