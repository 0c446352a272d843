// For processors without tiles: nobody gets here.
#include "kernels/tile_products.h"
#include "kolo/base/error.h"

namespace kolo::tile_products {

namespace {

[[noreturn]] void refuse() {
  throw Error("nn: products by tiles on a processor that has none");
}

}  // namespace

bool are_supported() {
  return false;
}

Tiles::Tiles() {
  refuse();
}
Tiles::~Tiles() = default;

void multiply(const Left& /*left*/, const Right& /*right*/, const Sums& /*sums*/) {
  refuse();
}

void pack(const float* /*rows*/, std::int64_t /*stride*/, std::int64_t /*columns*/,
          BFloat16* /*packed*/, std::int64_t /*tile_stride*/) {
  refuse();
}

void pack(const BFloat16* /*rows*/, std::int64_t /*stride*/, std::int64_t /*columns*/,
          BFloat16* /*packed*/, std::int64_t /*tile_stride*/) {
  refuse();
}

void pack_transposed(const float* /*rows*/, std::int64_t /*stride*/, BFloat16* /*packed*/) {
  refuse();
}

void transpose(const BFloat16* /*rows*/, std::int64_t /*stride*/, std::int64_t /*columns*/,
               BFloat16* /*into*/, std::int64_t /*into_stride*/) {
  refuse();
}

void stream(const float* /*sums*/, std::int64_t /*rows*/, std::int64_t /*columns*/, float* /*into*/,
            std::int64_t /*stride*/) {
  refuse();
}

void round_row(const float* /*sums*/, const float* /*bias*/, std::int64_t /*columns*/,
               BFloat16* /*into*/) {
  refuse();
}

}  // namespace kolo::tile_products
