#pragma once

#include "kernels/float32_products_loops.h"
#include "kernels/image_lanes_loops.h"
#include "kernels/nonzero_bits_loops.h"
#include "kernels/vector_loops.h"
#include "kernels/winograd_loops.h"

// All loops, for vectors that were included before.
namespace kolo::KOLO_VECTORS {

inline VectorLoops all_loops() {
  return {.lanes = lanes,
          .correlate = correlate,
          .correlate_gradients = correlate_gradients,
          .multiply = multiply,
          .find_nonzero = find_nonzero<float>,
          .find_nonzero_bfloat16 = find_nonzero<BFloat16>,
          .spread = spread<float>,
          .spread_bfloat16 = spread<BFloat16>,
          .collect = collect<float>,
          .collect_bfloat16 = collect<BFloat16>};
}

}  // namespace kolo::KOLO_VECTORS
