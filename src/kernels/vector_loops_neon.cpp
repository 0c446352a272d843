#include <cstdint>

#include <arm_neon.h>

#include "base/half.h"

// Vectors of 4 floats, which every aarch64 processor has.

#define KOLO_VECTORS vectors_of_4
#define KOLO_VECTOR
#define KOLO_VECTOR_INLINE __attribute__((always_inline)) inline

namespace kolo::vectors_of_4 {

using Vector = float32x4_t;
constexpr std::int64_t lanes = 4;
constexpr int registers = 32;

KOLO_VECTOR_INLINE Vector loaded(const BFloat16* at) {
  return vreinterpretq_f32_u32(
      vshll_n_u16(vld1_u16(reinterpret_cast<const std::uint16_t*>(at)), 16));
}

KOLO_VECTOR_INLINE void store(BFloat16* at, Vector values) {
  const uint32x4_t bits = vreinterpretq_u32_f32(values);
  const uint32x4_t is_odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  const uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(is_odd, vdupq_n_u32(0x7fff)));
  const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
  const uint32x4_t is_number = vceqq_f32(values, values);
  vst1_u16(reinterpret_cast<std::uint16_t*>(at),
           vshrn_n_u32(vbslq_u32(is_number, rounded, quiet), 16));
}

// A bit for each value that is not 0; a NaN is not.
KOLO_VECTOR_INLINE std::uint32_t nonzero(Vector values) {
  constexpr std::uint32_t bits[lanes] = {1, 2, 4, 8};
  return vaddvq_u32(vbicq_u32(vld1q_u32(bits), vceqzq_f32(values)));
}

KOLO_VECTOR_INLINE Vector multiplied_added(Vector a, Vector b, Vector c) {
  return vfmaq_f32(c, a, b);
}

}  // namespace kolo::vectors_of_4

// The loops are for these vectors.
#include "kernels/vector_loops_table.h"

namespace kolo {

VectorLoops vector_loops_of_4() {
  return vectors_of_4::all_loops();
}

}  // namespace kolo
