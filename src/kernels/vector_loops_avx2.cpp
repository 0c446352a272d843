#include <cstdint>

#include <immintrin.h>

#include "base/half.h"

// Vectors of 8 floats.

#define KOLO_VECTORS vectors_of_8
#define KOLO_VECTOR __attribute__((target("avx2,fma")))
#define KOLO_VECTOR_INLINE __attribute__((target("avx2,fma"), always_inline)) inline

namespace kolo::vectors_of_8 {

using Vector = __m256;
constexpr std::int64_t lanes = 8;
constexpr int registers = 16;

inline bool are_supported() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
}

KOLO_VECTOR_INLINE Vector loaded(const BFloat16* at) {
  const auto values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(values), 16));
}

KOLO_VECTOR_INLINE void store(BFloat16* at, Vector values) {
  const __m256i bits = _mm256_castps_si256(values);
  const __m256i is_odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_add_epi32(bits, _mm256_add_epi32(is_odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i is_none = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q));
  const __m256i result = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_none), 16);
  // Packing works on halves of 128 bits.
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(result, result), 0b1000);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(at), _mm256_castsi256_si128(packed));
}

// A bit for each value that is not 0; a NaN is not.
KOLO_VECTOR_INLINE std::uint32_t nonzero(Vector values) {
  return static_cast<std::uint32_t>(
      _mm256_movemask_ps(_mm256_cmp_ps(values, _mm256_setzero_ps(), _CMP_NEQ_UQ)));
}

KOLO_VECTOR_INLINE Vector multiplied_added(Vector a, Vector b, Vector c) {
  return _mm256_fmadd_ps(a, b, c);
}

}  // namespace kolo::vectors_of_8

// The loops are for these vectors.
#include "kernels/vector_loops_table.h"

namespace kolo {

std::optional<VectorLoops> vector_loops_of_8() {
  if (!vectors_of_8::are_supported()) return std::nullopt;
  return vectors_of_8::all_loops();
}

}  // namespace kolo
