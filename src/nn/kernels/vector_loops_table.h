#pragma once

#include "nn/kernels/float32_products_loops.h"
#include "nn/kernels/image_lanes_loops.h"
#include "nn/kernels/vector_loops.h"
#include "nn/kernels/winograd_loops.h"

// All loops, for vectors that were included before.
namespace kolo::KOLO_VECTORS {

inline VectorLoops all_loops() {
  return {.lanes = lanes,
          .correlate = correlate,
          .correlate_gradients = correlate_gradients,
          .sum = sum,
          .multiply = multiply,
          .spread = spread<float>,
          .spread_bfloat16 = spread<BFloat16>,
          .collect = collect<float>,
          .collect_bfloat16 = collect<BFloat16>};
}

}  // namespace kolo::KOLO_VECTORS
