#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/reduction_order.h"

// Passes over flat memory, at its speed, on this thread. Their results don't depend on the
// processor.
namespace kolo::parallel {

// Added up in double, in an order that depends on nothing but the size: LibTorch's norm depends on
// the number of threads too, and the ranks' may differ. Like the two below of float and double.
template <typename T>
[[nodiscard]] double sum_of_squares(std::span<const T> values);

// Adds `other`, of the same size, to the values.
template <typename T>
void add(std::span<T> values, std::span<T> other);

template <typename T>
void scale(std::span<T> values, double factor);

// Whether some value has all the bits of `mask`: for a mask of the exponent's bits, whether a
// floating-point number is infinite or not a number. `Word`: unsigned, of 16, 32 or 64 bits.
template <typename Word>
[[nodiscard]] bool has_all_bits(std::span<const Word> values, Word mask);

// Words of a checksum, each mixed with its number and added up, in integers that wrap around. The
// constants are those of MurmurHash3 (Appleby, in the public domain).
[[nodiscard]] std::uint64_t sum_of_mixed(std::span<const std::int32_t> words);
constexpr std::array<std::uint64_t, 2> mixing_factors = {0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53};

// A matrix M of [rows, columns], row by row in memory, and its factors P (`rank` vectors of `rows`
// elements, one after another) and Q (`rank` vectors of `columns`).
struct LowRank {
  float* matrix = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t rank = 0;
  float* left = nullptr;   // P
  float* right = nullptr;  // Q
};

// M += error, laid out like M; P = M Q.
void multiply(const LowRank& factors, const float* error);
// Q = M^T P.
void multiply_transposed(const LowRank& factors);
// M = P Q^T; `error` becomes what M loses by it.
void reconstruct(const LowRank& factors, float* error);
// Makes P's vectors orthonormal (Gram-Schmidt, twice, which keeps them orthogonal to rounding). One
// that keeps less than 1e-6 of its length becomes zero.
void orthogonalise(const LowRank& factors);

// Passes over flat memory of a CUDA device (cuda/flat_kernels.cu), as those above on the host. They
// are enqueued on a stream (a cudaStream_t of the current device), and nobody waits for them; what
// they are given by a pointer lies in the device's memory, and so do their results. A workspace
// holds no results, so calls on one stream may share it; it is aligned to 8 bytes. Without CUDA
// these throw Error.

// Adds the squares of the values, float or double, to `total`, in the order of reduction_order.h,
// whatever the device.
template <typename T>
void add_squares_on_device(double* total, std::span<const T> values, std::span<std::byte> workspace,
                           void* stream);

constexpr std::size_t squares_workspace_bytes(std::size_t size) {
  return reduction::chunks_of(size) * sizeof(double);
}

// `found` becomes 1 where has_all_bits() is true, and stays as it is otherwise.
template <typename Word>
void find_all_bits_on_device(std::span<const Word> values, Word mask, std::int32_t* found,
                             void* stream);

// Instantiates the templates, for cuda/flat_kernels.cu and its stand-in.
#define KOLO_INSTANTIATE_SQUARES(T) \
  template void add_squares_on_device(double*, std::span<const T>, std::span<std::byte>, void*);
#define KOLO_INSTANTIATE_ALL_BITS(Word) \
  template void find_all_bits_on_device(std::span<const Word>, Word, std::int32_t*, void*);
#define KOLO_INSTANTIATE_FLAT_KERNELS      \
  KOLO_INSTANTIATE_SQUARES(float)          \
  KOLO_INSTANTIATE_SQUARES(double)         \
  KOLO_INSTANTIATE_ALL_BITS(std::uint64_t) \
  KOLO_INSTANTIATE_ALL_BITS(std::uint32_t) \
  KOLO_INSTANTIATE_ALL_BITS(std::uint16_t)

}  // namespace kolo::parallel
