// For processors without vectors of bfloat16: nobody gets here.
#include "kernels/products.h"
#include "kolo/base/error.h"

namespace kolo::bfloat16_products {

namespace {

[[noreturn]] void refuse() {
  throw Error("nn: products of bfloat16 on a processor that has none");
}

}  // namespace

bool are_supported() {
  return false;
}

void pack(const float* /*rows*/, std::int64_t /*stride*/, std::int64_t /*inner*/,
          std::int64_t /*columns*/, Pair* /*packed*/, std::int64_t /*packed_stride*/) {
  refuse();
}

void pack(const BFloat16* const* /*rows*/, std::int64_t /*inner*/, std::int64_t /*columns*/,
          Pair* /*packed*/) {
  refuse();
}

void pack_transposed(const float* /*rows*/, std::int64_t /*stride*/, std::int64_t /*inner*/,
                     std::int64_t /*columns*/, Pair* /*packed*/) {
  refuse();
}

void multiply(std::int64_t /*rows*/, std::int64_t /*columns*/, std::int64_t /*pairs*/,
              const Left& /*a*/, const Pair* /*b*/, float* const* /*c*/, ProductResult /*result*/) {
  refuse();
}

}  // namespace kolo::bfloat16_products
