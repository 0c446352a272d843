#include "nn/kernels/taps.h"

#include "kolo/base/checked.h"

namespace kolo {

namespace {

std::int64_t product(const std::vector<std::int64_t>& lengths) {
  return checked_product<std::int64_t>(lengths);
}

// The coordinates of an index in a grid of these lengths, the last running fastest.
std::vector<std::int64_t> coordinates(std::int64_t index,
                                      const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> result(lengths.size());
  for (std::size_t i = lengths.size(); i-- > 0; index /= lengths[i]) result[i] = index % lengths[i];
  return result;
}

Tap connections_of(const ConvolutionGeometry& geometry, std::int64_t tap) {
  const auto output_size = geometry.output_size();
  const auto offset = coordinates(tap, geometry.kernel);
  Tap found;
  for (std::int64_t output = 0; output < product(output_size); ++output) {
    const auto at = coordinates(output, output_size);
    std::int64_t input = 0;
    bool inside = true;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const auto x = at[i] * geometry.stride[i] - geometry.padding[i] + offset[i];
      inside = inside && x >= 0 && x < geometry.size[i];
      input = input * geometry.size[i] + x;
    }
    if (inside) found.push_back({input, output});
  }
  return found;
}

}  // namespace

std::vector<Tap> taps_of(const ConvolutionGeometry& geometry) {
  std::vector<Tap> taps;
  for (std::int64_t tap = 0; tap < product(geometry.kernel); ++tap)
    taps.push_back(connections_of(geometry, tap));
  return taps;
}

}  // namespace kolo
