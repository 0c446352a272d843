#include "data/generators/photograph.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "data/generators/cubic.h"
#include "kolo/data/cifar10.h"
#include "kolo/data/image_writer.h"

namespace kolo {

namespace {

constexpr auto small_plane = static_cast<std::size_t>(cifar10_side * cifar10_side);

struct Size {
  std::int64_t height = 0, width = 0;
};

// Mostly 4:3, as photographs are.
float draw_aspect(CounterRandom& random) {
  constexpr std::array<float, 10> aspects = {4 / 3.0F, 4 / 3.0F, 4 / 3.0F, 4 / 3.0F, 3 / 4.0F,
                                             3 / 4.0F, 3 / 2.0F, 2 / 3.0F, 1,        16 / 9.0F};
  return aspects[random.below(aspects.size())];
}

Size draw_size(CounterRandom& random, std::int64_t least_side, std::int64_t most_side) {
  const auto low = static_cast<float>(least_side), high = static_cast<float>(most_side);
  const float area_side = low * std::pow(high / low, random.uniform());
  const float stretch = std::sqrt(draw_aspect(random));
  const auto side = [&](float length) {
    return std::clamp<std::int64_t>(std::lround(length), least_side, most_side);
  };
  return {side(area_side / stretch), side(area_side * stretch)};
}

// The part of the small image that is seen. Half of a picture's aspect comes of stretching, half of
// cutting.
std::vector<float> places_in_small(std::int64_t pixels, std::int64_t other_side) {
  const auto length = static_cast<float>(pixels);
  const float seen = std::min(1.0F, std::sqrt(length / static_cast<float>(other_side)));
  std::vector<float> places(static_cast<std::size_t>(pixels));
  for (std::size_t i = 0; i < places.size(); ++i) {
    const float from_middle = (static_cast<float>(i) + .5F) / length - .5F;
    places[i] = (.5F + seen * from_middle) * cifar10_side - .5F;
  }
  return places;
}

// Brightness that varies from pixel to pixel and over some pixels, without which so large an image
// of so few pixels would pack into almost nothing.
std::vector<float> draw_grain(CounterRandom& random, const Size& size) {
  const float coarse = 7, fine = 2.5F;  // pixels
  const auto rows = static_cast<float>(size.height), columns = static_cast<float>(size.width);
  auto grain = value_noise(random, rows / coarse, columns / coarse, size.height, size.width);
  const auto finer = value_noise(random, rows / fine, columns / fine, size.height, size.width);
  for (std::size_t i = 0; i < grain.size(); ++i) {
    grain[i] = 40 * (grain[i] - .5F) + 40 * (finer[i] - .5F) + 12 * (random.uniform() - .5F);
  }
  return grain;
}

}  // namespace

std::vector<std::byte> photograph(std::span<const std::uint8_t> pixels, CounterRandom& random,
                                  std::int64_t least_side, std::int64_t most_side) {
  const auto size = draw_size(random, least_side, most_side);
  const auto grain = draw_grain(random, size);
  const auto row_places = places_in_small(size.height, size.width);
  const auto column_places = places_in_small(size.width, size.height);
  Image image{size.height, size.width, std::vector<std::uint8_t>(grain.size() * 3)};
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const auto bytes = pixels.subspan(channel * small_plane, small_plane);
    const std::vector<float> plane(bytes.begin(), bytes.end());
    const auto large = resample(plane, cifar10_side, cifar10_side, row_places, column_places);
    for (std::size_t i = 0; i < grain.size(); ++i) {
      image.pixels[i * 3 + channel] =
          static_cast<std::uint8_t>(std::clamp(large[i] + grain[i] + .5F, 0.0F, 255.0F));
    }
  }
  const int quality = 75 + static_cast<int>(random.below(21));
  const bool grey = random.below(20) == 0;
  return encode_jpeg(image, quality, grey ? JpegColours::grey : JpegColours::all);
}

}  // namespace kolo
