// For processors without products of bfloat16: nobody gets here.
#include "kolo/base/error.h"
#include "nn/kernels/winograd.h"

namespace kolo {

namespace {

[[noreturn]] void refuse() {
  throw Error("nn: products of bfloat16 on a processor that has none");
}

}  // namespace

void winograd::spread(Spread /*what*/, const BFloat16* const* /*at*/, std::int64_t /*channels*/,
                      const Places& /*places*/, BFloat16* /*coefficients*/) {
  refuse();
}

void winograd::spread_pairs(Spread /*what*/, const BFloat16* const* /*first*/,
                            const BFloat16* const* /*second*/, std::int64_t /*channels*/,
                            const Places& /*places*/, Pair* /*pairs*/) {
  refuse();
}

void winograd::spread_pairs(const float* const* /*first*/, const float* const* /*second*/,
                            std::int64_t /*channels*/, const Places& /*places*/, Pair* /*pairs*/) {
  refuse();
}

}  // namespace kolo
