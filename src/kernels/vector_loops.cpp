#include "kernels/vector_loops.h"

namespace kolo {

namespace {

std::vector<VectorLoops> find_vector_loops() {
  std::vector<VectorLoops> result;
#if defined(__x86_64__)
  for (const auto& loops : {vector_loops_of_16(), vector_loops_of_8()})
    if (loops) result.push_back(*loops);
#endif
  return result;
}

}  // namespace

const std::vector<VectorLoops>& supported_vector_loops() {
  static const auto supported = find_vector_loops();
  return supported;
}

}  // namespace kolo
