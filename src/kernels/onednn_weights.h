#pragma once

#include <torch/types.h>

#include "kernels/onednn.h"

namespace kolo::onednn {

// Rounds a float32 weight whose memory has the taps first to bfloat16, in one of the layouts that
// oneDNN's convolutions by AVX512-BF16 and AMX take: as its own reorder does, in less time. False
// where it is another layout, or channels don't fill vectors; then nothing was done.
[[nodiscard]] bool pack_weight(const torch::Tensor& weight, const Layout& to, void* packed);

}  // namespace kolo::onednn
