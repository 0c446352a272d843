// For processors without vectors of 16 floats: nobody gets here.
#include "kolo/base/error.h"
#include "nn/kernels/float32_products.h"
#include "nn/kernels/winograd.h"

namespace kolo {

namespace {

[[noreturn]] void refuse() {
  throw Error("nn: vectors of 16 floats on a processor that has none");
}

}  // namespace

bool winograd::is_supported() {
  return false;
}

void winograd::spread(Algorithm /*algorithm*/, Spread /*what*/, const float* const* /*at*/,
                      std::int64_t /*channels*/, const Places& /*places*/,
                      float* /*coefficients*/) {
  refuse();
}

void winograd::spread(Algorithm /*algorithm*/, Spread /*what*/, const BFloat16* const* /*at*/,
                      std::int64_t /*channels*/, const Places& /*places*/,
                      float* /*coefficients*/) {
  refuse();
}

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

void winograd::collect(Algorithm /*algorithm*/, Collect /*what*/, const float* /*coefficients*/,
                       const Places& /*places*/, std::int64_t /*channels*/, const float* /*bias*/,
                       BFloat16* const* /*at*/) {
  refuse();
}

void winograd::collect(Algorithm /*algorithm*/, Collect /*what*/, const float* /*coefficients*/,
                       const Places& /*places*/, std::int64_t /*channels*/, const float* /*bias*/,
                       float* const* /*at*/) {
  refuse();
}

bool float32_products::are_supported() {
  return false;
}

void float32_products::multiply(std::int64_t /*rows*/, std::int64_t /*columns*/,
                                std::int64_t /*inner*/, const Left& /*a*/, const float* /*b*/,
                                std::int64_t /*b_stride*/, float* /*c*/, std::int64_t /*c_stride*/,
                                ProductResult /*result*/) {
  refuse();
}

}  // namespace kolo
