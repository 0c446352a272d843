#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <torch/types.h>

// Passes over whole tensors where they are, whose results stay there: of a device, in the order of
// the current stream, and nobody waits.
namespace kolo::parallel {

// The bits of a floating-point number's exponent, which are all set in infinity and what is not a
// number; nothing for integers, which are finite.
[[nodiscard]] std::optional<std::uint64_t> exponent_bits(torch::ScalarType type);

// `found`, one int32, becomes 1 where a dense tensor has an infinity or something that is not a
// number, and stays as it is otherwise.
void find_non_finite(const torch::Tensor& tensor, const torch::Tensor& found);

// Adds a dense tensor to the norm of several, before its root is taken (kernels.h): `total`, one
// float64. Values of 16 bits are made float32.
void add_to_norm(const torch::Tensor& tensor, const torch::Tensor& total, double norm_type = 2);

// The checksums of dense tensors on one device or the host (checksum_of()), read from a device all
// at once: this waits.
[[nodiscard]] std::vector<std::int64_t> checksums_of(const std::vector<torch::Tensor>& tensors);

}  // namespace kolo::parallel
