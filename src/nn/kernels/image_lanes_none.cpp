#include "kolo/base/error.h"
#include "nn/kernels/loops.h"

// For processors without vectors of 16 floats.
namespace kolo::image_lanes {

namespace {

[[noreturn]] void refuse() {
  throw Error("nn: convolutions with an image a lane are not for this processor");
}

}  // namespace

bool are_supported() {
  return false;
}

void correlate(const Correlation&, const float*, const float*, const float*, float*, std::int64_t,
               std::int64_t) {
  refuse();
}

void correlate_gradients(const Correlation&, const float*, const float*, float*, std::int64_t,
                         std::int64_t) {
  refuse();
}

float sum(const float*, std::int64_t) {
  refuse();
}

}  // namespace kolo::image_lanes
