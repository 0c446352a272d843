#include "kernels/winograd.h"

namespace kolo::winograd {

Lengths lengths_of(Algorithm algorithm) {
  if (algorithm == Algorithm::four_of_three_taps)
    return {.taps = 3, .stride = 1, .outputs = 4, .window = 6, .products = 6};
  return {.taps = 4, .stride = 2, .outputs = 2, .window = 6, .products = 3};
}

Places::Places(Algorithm algorithm, int dimensions, bool has_phases, std::int64_t product,
               std::int64_t phase)
    : dimensions_(dimensions) {
  const auto lengths = lengths_of(algorithm);
  const auto phases = has_phases ? lengths.stride : 1;
  count_ = lengths.products * phases;
  rest_ = {0};
  for (int dimension = dimensions - 1; dimension >= 0; --dimension) {
    std::vector<std::int64_t> along;
    for (std::int64_t i = 0; i < count_; ++i)
      along.push_back(i / phases * product + i % phases * phase);
    if (dimension == 0) {
      first_ = std::move(along);
      break;
    }
    std::vector<std::int64_t> both;
    for (const auto outer : along)
      for (const auto inner : rest_) both.push_back(outer + inner);
    rest_ = std::move(both);
    product *= lengths.products;
    phase *= phases;
  }
}

}  // namespace kolo::winograd
