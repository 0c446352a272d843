// For processors without vectors of 16 numbers: nobody gets here.
#include "data/boxes/wide_copies.h"
#include "kolo/base/error.h"

namespace kolo::wide_copies {

namespace {

[[noreturn]] void refuse() {
  throw Error("data: vectors of 16 floats on a processor that has none");
}

}  // namespace

bool are_supported() {
  return false;
}

void copy_row(const float* /*in*/, std::int64_t /*size*/, float /*factor*/, bool /*is_backwards*/,
              float* /*out*/) {
  refuse();
}

void transpose_rows(const float* /*in*/, std::int64_t /*in_stride*/, std::int64_t /*columns*/,
                    float /*factor*/, float* /*out*/, std::int64_t /*out_stride*/) {
  refuse();
}

}  // namespace kolo::wide_copies
