#pragma once

#include <array>
#include <cstdint>
#include <span>

#include <torch/types.h>

namespace kolo {

// What ranks tell each other of tensors whose first dimensions may differ: dtype, number of
// dimensions, and their sizes (of more than 14, the product of the last ones).
using TensorHeader = std::array<std::int64_t, 16>;

// `rows` has at least one dimension.
[[nodiscard]] TensorHeader header_of(const torch::Tensor& rows);

// Of a rank that has joined comes a header of zeros (Communicator::join()): it has no rows.
[[nodiscard]] inline bool has_joined(const TensorHeader& header) {
  return header[1] == 0;
}

// A header that says that this rank's arguments were wrong.
[[nodiscard]] TensorHeader refusal();

[[nodiscard]] inline std::int64_t rows_of(const TensorHeader& header) {
  return header[2];
}
inline void set_rows(TensorHeader& header, std::int64_t rows) {
  header[2] = rows;
}

// Error unless all ranks' tensors have one dtype and one shape but for the first dimension. It
// names two ranks and what they have. `headers` by rank, every `stride`-th of them.
void require_compatible(std::span<const TensorHeader> headers, const char* collective,
                        std::size_t stride = 1);

}  // namespace kolo
