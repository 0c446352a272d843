#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/reduction_order.h"
#include "parallel/checksum_steps.h"

// Passes over flat memory of a CUDA device (cuda/flat_kernels.cu), as those of kernels.h on the
// host. They are enqueued on a stream (a cudaStream_t of the current device), and nobody waits for
// them; what they are given by a pointer lies in the device's memory, and so do their results.
// Nothing is kept in a workspace, which is aligned to 8 bytes: passes that follow one another on a
// stream may use the same. In a build without CUDA they throw Error.
namespace kolo::parallel {

// add_to_norm() of `total`, which becomes the result. Added up in the order of reduction_order.h,
// whatever the device.
void add_to_norm_on_device(double* total, std::span<const float> values, double norm_type,
                           std::span<std::byte> workspace, void* stream);
void add_to_norm_on_device(double* total, std::span<const double> values, double norm_type,
                           std::span<std::byte> workspace, void* stream);

constexpr std::size_t norm_workspace_bytes(std::size_t size) {
  return reduction::chunks_of(size) * sizeof(double);
}

// With the factor rounded to the values' type.
void scale_on_device(std::span<float> values, const double* factor, void* stream);
void scale_on_device(std::span<double> values, const double* factor, void* stream);

void fill_on_device(std::span<float> values, float value, void* stream);
void fill_on_device(std::span<double> values, double value, void* stream);

// `found` becomes 1 where has_all_bits() is true, and stays as it is otherwise.
void find_all_bits_on_device(std::span<const std::uint64_t> values, std::uint64_t mask,
                             std::int32_t* found, void* stream);
void find_all_bits_on_device(std::span<const std::uint32_t> values, std::uint32_t mask,
                             std::int32_t* found, void* stream);
void find_all_bits_on_device(std::span<const std::uint16_t> values, std::uint16_t mask,
                             std::int32_t* found, void* stream);

// The same 64 bits as checksum()'s.
void checksum_on_device(std::span<const std::byte> bytes, std::uint64_t* result,
                        std::span<std::byte> workspace, void* stream);

// Checksums of pieces, of the pieces of those, and so on.
constexpr std::size_t checksum_workspace_bytes(std::size_t bytes) {
  std::size_t total = 0;
  while (bytes > checksum_piece_bytes) {
    bytes = (bytes + checksum_piece_bytes - 1) / checksum_piece_bytes * sizeof(std::uint64_t);
    total += bytes;
  }
  return total;
}

}  // namespace kolo::parallel
