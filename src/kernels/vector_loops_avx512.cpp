#include <cstdint>

#include <immintrin.h>

#include "base/half.h"

// Vectors of 16 floats, for loops that are compiled once for each width (vector_loops.h): a source
// includes vectors of one width first. Functions have the processor's instructions by attribute,
// since a whole source of them might leave some in functions that others share.

#define KOLO_VECTORS vectors_of_16
#define KOLO_VECTOR __attribute__((target("avx512f")))
#define KOLO_VECTOR_INLINE __attribute__((target("avx512f"), always_inline)) inline

namespace kolo::vectors_of_16 {

using Vector = __m512;
constexpr std::int64_t lanes = 16;
constexpr int registers = 32;

inline bool are_supported() {
  return __builtin_cpu_supports("avx512f") != 0;
}

KOLO_VECTOR_INLINE Vector loaded(const BFloat16* at) {
  const auto values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(values), 16));
}

// Rounds to the nearest, ties to even; a NaN stays one.
KOLO_VECTOR_INLINE void store(BFloat16* at, Vector values) {
  const __m512i bits = _mm512_castps_si512(values);
  const __m512i is_odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded =
      _mm512_add_epi32(bits, _mm512_add_epi32(is_odd, _mm512_set1_epi32(0x7fff)));
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __mmask16 is_none = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
  const __m512i result = _mm512_mask_blend_epi32(is_none, rounded, quiet);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(at),
                      _mm512_cvtepi32_epi16(_mm512_srli_epi32(result, 16)));
}

// A bit for each value that is not 0; a NaN is not.
KOLO_VECTOR_INLINE std::uint32_t nonzero(Vector values) {
  return _mm512_cmp_ps_mask(values, _mm512_setzero_ps(), _CMP_NEQ_UQ);
}

// a b + c, rounded once.
KOLO_VECTOR_INLINE Vector multiplied_added(Vector a, Vector b, Vector c) {
  return _mm512_fmadd_ps(a, b, c);
}

}  // namespace kolo::vectors_of_16

// The loops are for these vectors.
#include "kernels/vector_loops_table.h"

namespace kolo {

std::optional<VectorLoops> vector_loops_of_16() {
  if (!vectors_of_16::are_supported()) return std::nullopt;
  return vectors_of_16::all_loops();
}

}  // namespace kolo
