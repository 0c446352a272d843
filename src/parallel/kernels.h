#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// Passes over flat memory, at its speed, on this thread. Their results don't depend on the
// processor.
namespace kolo::parallel {

// In double precision.
[[nodiscard]] double sum_of_squares(std::span<const float> values);
[[nodiscard]] double sum_of_squares(std::span<const double> values);

// The p-norm of several tensors together, before its root is taken, with one more of them: the sum
// of |value|^norm_type, or for an infinite norm_type the largest |value| (or NaN). Added up in
// double, in an order that depends on nothing but the sizes: LibTorch's norm depends on the number
// of threads too, and the ranks' may differ.
[[nodiscard]] double add_to_norm(double total, std::span<const float> values, double norm_type);
[[nodiscard]] double add_to_norm(double total, std::span<const double> values, double norm_type);

// Adds `other`, of the same size, to the values.
void add(std::span<float> values, std::span<const float> other);
void add(std::span<double> values, std::span<const double> other);

void scale(std::span<float> values, double factor);
void scale(std::span<double> values, double factor);

// Whether some value has all the bits of `mask`: for a mask of the exponent's bits, whether a
// floating-point number is infinite or not a number.
[[nodiscard]] bool has_all_bits(std::span<const std::uint64_t> values, std::uint64_t mask);
[[nodiscard]] bool has_all_bits(std::span<const std::uint32_t> values, std::uint32_t mask);
[[nodiscard]] bool has_all_bits(std::span<const std::uint16_t> values, std::uint16_t mask);

// 64 bits from all bytes, their order and their number; the same on every processor of one byte
// order.
[[nodiscard]] std::uint64_t checksum(std::span<const std::byte> bytes);

// A matrix M of [rows, columns], row by row in memory, and its factors P (`rank` vectors of `rows`
// elements, one after another) and Q (`rank` vectors of `columns`).
template <typename T>
struct LowRank {
  T* matrix = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t rank = 0;
  T* left = nullptr;   // P
  T* right = nullptr;  // Q
};

// M += error, laid out like M, unless that is null; P = M Q.
void multiply(const LowRank<float>& factors, const float* error);
void multiply(const LowRank<double>& factors, const double* error);

// Q = M^T P.
void multiply_transposed(const LowRank<float>& factors);
void multiply_transposed(const LowRank<double>& factors);

// M = P Q^T; `error` becomes what M loses by it, unless it is null.
void reconstruct(const LowRank<float>& factors, float* error);
void reconstruct(const LowRank<double>& factors, double* error);

// Makes P's vectors orthonormal (Gram-Schmidt, twice, which keeps them orthogonal to rounding). One
// that keeps less than epsilon of its length becomes zero.
void orthogonalise(const LowRank<float>& factors, double epsilon);
void orthogonalise(const LowRank<double>& factors, double epsilon);

}  // namespace kolo::parallel
