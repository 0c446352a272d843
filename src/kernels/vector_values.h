#pragma once

// Functions of vectors of floats that are the same for each width, for vectors that were included
// before.
namespace kolo::KOLO_VECTORS {

// A vector anywhere among floats.
using VectorInMemory [[gnu::aligned(alignof(float)), gnu::may_alias]] = Vector;

KOLO_VECTOR_INLINE Vector zeros() {
  return Vector{};
}

// The value in every lane.
KOLO_VECTOR_INLINE Vector all(float value) {
  return value - Vector{};
}

KOLO_VECTOR_INLINE Vector loaded(const float* at) {
  return *reinterpret_cast<const VectorInMemory*>(at);
}

KOLO_VECTOR_INLINE void store(float* at, Vector values) {
  *reinterpret_cast<VectorInMemory*>(at) = values;
}

}  // namespace kolo::KOLO_VECTORS
