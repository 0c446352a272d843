#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <ATen/Parallel.h>

#include "comm/shared_memory/reduce_kernels.h"
#include "kolo/base/checked.h"
#include "parallel/optimizers/tensor_steps.h"

namespace kolo::parallel {

namespace {

// Elements of a piece, whose average stays in a level-2 cache beside what streams by.
constexpr std::size_t piece_elements = 16384;
// Pieces that are worth another thread.
constexpr std::int64_t pieces_of_thread = 2;

template <typename T>
FlatSlice<T> part_of(const FlatSlice<T>& whole, std::size_t begin, std::size_t count) {
  FlatSlice<T> part{whole.parameters.subspan(begin, count),
                    whole.gradients.subspan(begin, count),
                    {},
                    whole.is_vector};
  for (std::size_t i = 0; i < whole.state.size(); ++i) {
    if (!whole.state[i].empty()) part.state[i] = whole.state[i].subspan(begin, count);
  }
  return part;
}

// Memory for the average of a piece of several ranks' gradients, which has the bits of their
// all-reduce.
template <typename T>
class PieceAverage {
 public:
  explicit PieceAverage(const std::vector<torch::Tensor>& gradients)
      : gradients_(gradients), pieces_(gradients.size()), average_(piece_elements) {}

  [[nodiscard]] std::span<const T> of(std::size_t begin, std::size_t count) {
    std::ranges::transform(gradients_, pieces_.begin(), [&](const torch::Tensor& rank) {
      return std::as_bytes(elements_of<T>(rank).subspan(begin)).data();
    });
    auto* const to = reinterpret_cast<std::byte*>(average_.data());
    reduce(data_type_of<T>(), ReduceOp::average, pieces_, std::span(&to, 1),
           static_cast<std::int64_t>(count), narrow<int>(gradients_.size()));
    return std::span(average_).first(count);
  }

 private:
  const std::vector<torch::Tensor>& gradients_;
  std::vector<const std::byte*> pieces_;
  std::vector<T> average_;
};

template <typename T>
void update_pieces(const FlatOptimizer& optimizer, const TensorSlice& slice, StepRate rate,
                   std::int64_t step) {
  const auto whole = flat_slice<T>(slice);
  const auto size = whole.parameters.size();
  if (optimizer.is_layerwise()) return optimizer.update(whole, rate, step);
  const auto pieces = narrow<std::int64_t>(divide_up(size, piece_elements));
  at::parallel_for(0, pieces, pieces_of_thread, [&](std::int64_t first, std::int64_t last) {
    std::optional<PieceAverage<T>> average;
    if (!slice.to_average.empty()) average.emplace(slice.to_average);
    for (auto piece = static_cast<std::size_t>(first); piece < static_cast<std::size_t>(last);
         ++piece) {
      const auto begin = piece * piece_elements;
      auto part = part_of(whole, begin, std::min(piece_elements, size - begin));
      if (average) part.gradients = average->of(begin, part.parameters.size());
      optimizer.update(part, rate, step);
    }
  });
}

}  // namespace

void update_on_host(const FlatOptimizer& optimizer, const TensorSlice& slice, StepRate rate,
                    std::int64_t step) {
  if (slice.parameters.scalar_type() == torch::kDouble)
    update_pieces<double>(optimizer, slice, rate, step);
  else
    update_pieces<float>(optimizer, slice, rate, step);
}

}  // namespace kolo::parallel
