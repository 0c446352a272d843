#include "train/batch_parts.h"

#include <cstdint>
#include <numeric>

namespace kolo {

namespace {

// Kernels may round otherwise where memory begins elsewhere in a cache line.
torch::Tensor as_its_own(const torch::Tensor& samples) {
  constexpr std::uintptr_t alignment = 64;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(samples.data_ptr()) % alignment == 0;
  return is_aligned ? samples : samples.clone();
}

}  // namespace

Batch part_of(const Batch& batch, std::size_t part) {
  if (batch.shares.empty()) return batch;
  const auto place = static_cast<std::ptrdiff_t>(part);
  const auto first =
      std::accumulate(batch.shares.begin(), batch.shares.begin() + place, std::int64_t{0});
  const auto count = batch.shares[part];
  Batch result{as_its_own(batch.input.narrow(0, first, count)),
               as_its_own(batch.target.narrow(0, first, count)),
               {},
               batch.position,
               {}};
  if (!batch.indices.empty())
    result.indices.assign(batch.indices.begin() + first, batch.indices.begin() + first + count);
  return result;
}

}  // namespace kolo
