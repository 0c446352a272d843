#pragma once

#include <torch/types.h>

#include "kolo/online/array.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo::testing {

// A tensor as a program's array.
inline Array array_of(const torch::Tensor& tensor) {
  return Array(tensor.data_ptr(), data_type_of(tensor.scalar_type()), tensor.sizes().vec(),
               tensor.strides().vec());
}

}  // namespace kolo::testing
