#include "kernels/taps.h"

#include <algorithm>

#include "kolo/base/checked.h"

namespace kolo {

TapPositions::TapPositions(const ConvolutionGeometry& geometry, std::int64_t tap) {
  const auto output_size = geometry.output_size();
  auto dimension = along_.size();
  for (auto i = output_size.size(); i-- > 0; tap /= geometry.kernel[i]) {
    const auto stride = geometry.stride[i], size = geometry.size[i];
    const auto shift = tap % geometry.kernel[i] - geometry.padding[i];
    const auto first = shift < 0 ? (-shift + stride - 1) / stride : 0;
    const auto end = shift < size ? std::min(output_size[i], (size - 1 - shift) / stride + 1) : 0;
    along_[--dimension] = {first, end, stride, shift, size, output_size[i]};
  }
}

std::vector<Tap> taps_of(const ConvolutionGeometry& geometry) {
  std::vector<Tap> taps;
  for (std::int64_t tap = 0; tap < checked_product<std::int64_t>(geometry.kernel); ++tap) {
    auto& found = taps.emplace_back();
    TapPositions(geometry, tap).while_wanted([&](const Connection& connection) {
      found.push_back(connection);
      return true;
    });
  }
  return taps;
}

}  // namespace kolo
