#include "kernels/vectors_avx2.h"
// The loops are for these vectors.
#include "kernels/vector_loops_table.h"

namespace kolo {

std::optional<VectorLoops> vector_loops_of_8() {
  if (!vectors_of_8::are_supported()) return std::nullopt;
  return vectors_of_8::all_loops();
}

}  // namespace kolo
