#pragma once

#include <cstdint>

// Passes over a matrix M of [rows, columns], row by row in memory, and its factors P (`rank`
// vectors of `rows` elements, one after another) and Q (`rank` vectors of `columns`). On this
// thread; the result does not depend on the processor.
namespace kolo::parallel {

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
