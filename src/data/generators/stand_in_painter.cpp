#include "data/generators/stand_in_painter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "data/generators/cubic.h"
#include "kolo/data/cifar10.h"

namespace kolo {

namespace {

constexpr auto side = static_cast<std::size_t>(cifar10_side);
using Plane = std::array<float, side * side>;
using Colour = std::array<float, 3>;  // red, green, blue in [0, 1]
using Picture = std::array<Plane, 3>;

float between(CounterRandom& random, float low, float high) {
  return low + (high - low) * random.uniform();
}

bool happens(CounterRandom& random, float probability) {
  return random.uniform() < probability;
}

// From hue (in turns), saturation and value.
Colour colour_of(float hue, float saturation, float value) {
  Colour colour{};
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const float k = std::fmod(5.0F - 2.0F * static_cast<float>(channel) + 6 * hue, 6.0F);
    colour[channel] = value - value * saturation * std::clamp(std::min(k, 4 - k), 0.0F, 1.0F);
  }
  return colour;
}

Colour draw_colour(CounterRandom& random, float low_value, float high_value) {
  const float hue = random.uniform(), saturation = between(random, .1F, .9F);
  return colour_of(hue, saturation, between(random, low_value, high_value));
}

Colour mix(const Colour& a, const Colour& b, float t) {
  Colour mixed{};
  for (std::size_t channel = 0; channel < 3; ++channel) {
    mixed[channel] = a[channel] + (b[channel] - a[channel]) * t;
  }
  return mixed;
}

// How a garment lies in the image.
struct Placement {
  float scale = 1, angle = 0;  // radians
  float shift_y = 0, shift_x = 0;
  bool mirrored = false;
};

// The value between the pixels around (y, x), zero beyond the edges.
float bilinear(std::span<const float> garment, float y, float x) {
  const auto value = [&](std::int64_t row, std::int64_t column) {
    if (row < 0 || column < 0 || row >= garment_side || column >= garment_side) return 0.0F;
    return garment[static_cast<std::size_t>(row * garment_side + column)];
  };
  const float top = std::floor(y), left = std::floor(x), down = y - top, right = x - left;
  const auto row = static_cast<std::int64_t>(top), column = static_cast<std::int64_t>(left);
  return (value(row, column) * (1 - right) + value(row, column + 1) * right) * (1 - down) +
         (value(row + 1, column) * (1 - right) + value(row + 1, column + 1) * right) * down;
}

Plane place(std::span<const float> garment, const Placement& placement) {
  constexpr float middle = (side - 1) / 2.0F, garment_middle = (garment_side - 1) / 2.0F;
  const float cosine = std::cos(placement.angle) / placement.scale;
  const float sine = std::sin(placement.angle) / placement.scale;
  Plane placed{};
  for (std::size_t row = 0; row < side; ++row) {
    for (std::size_t column = 0; column < side; ++column) {
      const float y = static_cast<float>(row) - middle - placement.shift_y;
      const float x = static_cast<float>(column) - middle - placement.shift_x;
      const float across = (cosine * x + sine * y) * (placement.mirrored ? -1.0F : 1.0F);
      placed[row * side + column] =
          bilinear(garment, cosine * y - sine * x + garment_middle, across + garment_middle);
    }
  }
  return placed;
}

// How much of the pixel the garment covers.
float cover(float garment) {
  const float t = std::clamp((garment - .04F) / .16F, 0.0F, 1.0F);
  return t * t * (3 - 2 * t);
}

void blend(Picture& picture, std::size_t pixel, const Colour& colour, float alpha) {
  for (std::size_t channel = 0; channel < 3; ++channel) {
    float& value = picture[channel][pixel];
    value += (colour[channel] - value) * alpha;
  }
}

Placement draw_placement(CounterRandom& random) {
  constexpr float degree = std::numbers::pi_v<float> / 180;
  Placement placement;
  placement.scale = between(random, .65F, 1.15F);
  placement.angle = between(random, -15, 15) * degree;
  placement.shift_y = between(random, -4, 4);
  placement.shift_x = between(random, -4, 4);
  placement.mirrored = happens(random, .5F);
  return placement;
}

// Three octaves of noise around 1/2, sometimes averaged with waves.
Plane draw_texture(CounterRandom& random) {
  struct Octave {
    float cells, amplitude;
  };
  Plane texture{};
  texture.fill(-.5F);
  for (const auto [cells, amplitude] : {Octave{3, .5F}, Octave{6, .3F}, Octave{12, .2F}}) {
    const auto noise = value_noise(random, cells, cells, cifar10_side, cifar10_side);
    for (std::size_t i = 0; i < texture.size(); ++i) texture[i] += amplitude * noise[i];
  }
  for (float& value : texture) value = std::clamp(.5F + 2 * value, 0.0F, 1.0F);
  if (!happens(random, .5F)) return texture;
  const float frequency = between(random, .15F, .8F);  // radians a pixel
  const float direction = between(random, 0, 2 * std::numbers::pi_v<float>);
  const float phase = between(random, 0, 2 * std::numbers::pi_v<float>);
  const float along_x = frequency * std::cos(direction), along_y = frequency * std::sin(direction);
  for (std::size_t row = 0; row < side; ++row) {
    for (std::size_t column = 0; column < side; ++column) {
      const float wave = std::sin(along_x * static_cast<float>(column) +
                                  along_y * static_cast<float>(row) + phase);
      float& value = texture[row * side + column];
      value = (value + .5F + .5F * wave) / 2;
    }
  }
  return texture;
}

void paint_background(CounterRandom& random, Picture& picture) {
  const auto dark = draw_colour(random, 0, .55F), other = draw_colour(random, 0, .55F);
  const auto texture = draw_texture(random);
  for (std::size_t pixel = 0; pixel < texture.size(); ++pixel) {
    blend(picture, pixel, mix(dark, other, texture[pixel]), 1);
  }
}

void paint_distractor(std::span<const float> garment, CounterRandom& random, Picture& picture) {
  const auto offset = [&] {
    const float size = between(random, 8, 13);
    return happens(random, .5F) ? size : -size;
  };
  Placement placement;
  placement.scale = between(random, .45F, .7F);
  placement.shift_y = offset();
  placement.shift_x = offset();
  const auto colour = draw_colour(random, .05F, 1);
  const auto shape = place(garment, placement);
  for (std::size_t pixel = 0; pixel < shape.size(); ++pixel) {
    blend(picture, pixel, colour, cover(shape[pixel]));
  }
}

void paint_garment(std::span<const float> garment, CounterRandom& random, Picture& picture) {
  const auto shape = place(garment, draw_placement(random));
  const auto dark = draw_colour(random, .3F, .8F), bright = draw_colour(random, .6F, 1);
  for (std::size_t pixel = 0; pixel < shape.size(); ++pixel) {
    blend(picture, pixel, mix(dark, bright, shape[pixel]), cover(shape[pixel]));
  }
}

// What a camera does: contrast, brightness, noise.
void expose(CounterRandom& random, Picture& picture) {
  const float contrast = between(random, .7F, 1.2F), brightness = between(random, -.1F, .1F);
  for (auto& plane : picture) {
    for (float& value : plane) {
      value = .5F + contrast * (value - .5F) + brightness + .03F * random.normal();
    }
  }
}

void paint_occluder(CounterRandom& random, Picture& picture) {
  constexpr std::uint32_t size = 8, places = side - size + 1;
  const std::size_t top = random.below(places), left = random.below(places);
  const auto colour = draw_colour(random, 0, 1);
  for (std::size_t row = top; row < top + size; ++row) {
    for (std::size_t column = left; column < left + size; ++column) {
      blend(picture, row * side + column, colour, 1);
    }
  }
}

}  // namespace

void paint_stand_in(std::span<const float> garment, std::span<const float> distractor,
                    CounterRandom& random, std::span<std::uint8_t> pixels) {
  Picture picture{};
  paint_background(random, picture);
  if (!distractor.empty()) paint_distractor(distractor, random, picture);
  paint_garment(garment, random, picture);
  expose(random, picture);
  if (happens(random, .3F)) paint_occluder(random, picture);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const float value = std::clamp(picture[i / (side * side)][i % (side * side)], 0.0F, 1.0F);
    pixels[i] = static_cast<std::uint8_t>(std::floor(255 * value + .5F));
  }
}

}  // namespace kolo
