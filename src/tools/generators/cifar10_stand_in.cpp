#include "kolo/tools/generators.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/random.h"
#include "tools/generators/generator_tools.h"

namespace kolo {

namespace {

inline constexpr std::int64_t garment_side = 28;

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

// Colour of a hue (in turns), saturation and value.
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

// Position of a garment in the image.
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

// Share of a pixel that a garment of this brightness covers.
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

Placement draw_placement(CounterRandom& random, bool plain) {
  constexpr float degree = std::numbers::pi_v<float> / 180;
  const float turn = plain ? 5 : 15, shift = plain ? 1.5F : 4;
  Placement placement;
  placement.scale = between(random, plain ? .85F : .65F, 1.15F);
  placement.angle = between(random, -turn, turn) * degree;
  placement.shift_y = between(random, -shift, shift);
  placement.shift_x = between(random, -shift, shift);
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

void paint_background(CounterRandom& random, bool plain, Picture& picture) {
  const auto dark = draw_colour(random, 0, plain ? .4F : .55F);
  const auto other = plain ? mix(dark, {.5F, .5F, .5F}, .3F) : draw_colour(random, 0, .55F);
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
  const Placement placement{
      .scale = between(random, .45F, .7F), .shift_y = offset(), .shift_x = offset()};
  const auto colour = draw_colour(random, .05F, 1);
  const auto shape = place(garment, placement);
  for (std::size_t pixel = 0; pixel < shape.size(); ++pixel) {
    blend(picture, pixel, colour, cover(shape[pixel]));
  }
}

void paint_garment(std::span<const float> garment, CounterRandom& random, bool plain,
                   Picture& picture) {
  const auto shape = place(garment, draw_placement(random, plain));
  const auto dark = draw_colour(random, .3F, .8F), bright = draw_colour(random, .6F, 1);
  for (std::size_t pixel = 0; pixel < shape.size(); ++pixel) {
    blend(picture, pixel, mix(dark, bright, shape[pixel]), cover(shape[pixel]));
  }
}

// Effects of a camera: contrast, brightness, noise.
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

// Paints one image of 32 x 32: a garment of 28 x 28 values in [0, 1] on a background, perhaps with
// a distractor garment under it (empty: none) and an occluder over it, unless it is plain
// (StandInOptions). `random` decides everything else. `pixels`: red, green and blue planes, 3072
// bytes.
void paint_stand_in(std::span<const float> garment, std::span<const float> distractor,
                    CounterRandom& random, bool plain, std::span<std::uint8_t> pixels) {
  Picture picture{};
  paint_background(random, plain, picture);
  if (!distractor.empty()) paint_distractor(distractor, random, picture);
  paint_garment(garment, random, plain, picture);
  expose(random, picture);
  if (!plain && happens(random, .3F)) paint_occluder(random, picture);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const float value = std::clamp(picture[i / (side * side)][i % (side * side)], 0.0F, 1.0F);
    pixels[i] = static_cast<std::uint8_t>(std::floor(255 * value + .5F));
  }
}

namespace fs = std::filesystem;

// Keeps these numbers independent of those that training draws from the same seed.
constexpr std::uint32_t stand_in_stream = 0x57A2D121;
enum Stream : std::uint32_t { image_stream, order_stream };
constexpr std::int64_t progress_step = 16;  // images

// The first images of each class, in the source's order.
std::vector<std::int64_t> first_of_each_class(const MnistDataset& source, std::int64_t per_class,
                                              const fs::path& folder) {
  std::vector<std::int64_t> chosen;
  std::array<std::int64_t, cifar10_classes> counts{};
  for (std::int64_t i = 0; i < source.size(); ++i)
    if (++counts[source.label(i)] <= per_class) chosen.push_back(i);
  for (std::size_t label = 0; label < counts.size(); ++label) {
    if (counts[label] >= per_class) continue;
    throw InputError(
        fmt::format("data: {} images of class {} asked for, but the training split in {} has {}",
                    per_class, label, folder.string(), counts[label]));
  }
  return chosen;
}

void shuffle(std::vector<std::int64_t>& order, std::uint64_t seed) {
  CounterRandom random(seed, order_stream, 0);
  for (auto left = static_cast<std::uint32_t>(order.size()); left > 1; --left) {
    std::swap(order[left - 1], order[random.below(left)]);
  }
}

std::vector<float> read_garment(const MnistDataset& source, std::int64_t index) {
  std::vector<float> garment;
  for (const auto pixel : source.pixels(index))
    garment.push_back(static_cast<float>(std::to_integer<std::uint8_t>(pixel)) / 255.0F);
  return garment;
}

std::vector<std::int64_t> all_of(const MnistDataset& source) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(source.size()));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

float squared_distance(std::span<const float> a, std::span<const float> b) {
  float sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

// All images class by class, the clearest first: those that are nearer to the mean of their class
// than to any other class's by most.
std::vector<std::int64_t> clearest_first(const MnistDataset& source) {
  std::vector means(cifar10_classes, std::vector<float>(garment_side * garment_side));
  auto order = all_of(source);
  std::vector<float> counts(means.size());
  for (const auto i : order) ++counts[source.label(i)];
  for (const auto i : order) {
    const auto garment = read_garment(source, i);
    const auto label = source.label(i);
    for (std::size_t pixel = 0; pixel < garment.size(); ++pixel)
      means[label][pixel] += garment[pixel] / counts[label];
  }
  std::vector<float> doubt;
  for (const auto i : order) {
    const auto garment = read_garment(source, i);
    std::vector<float> distances;
    for (const auto& mean : means) distances.push_back(squared_distance(garment, mean));
    const float own = std::exchange(distances[source.label(i)], std::numeric_limits<float>::max());
    doubt.push_back(own - std::ranges::min(distances));
  }
  std::ranges::stable_sort(order, {}, [&](std::int64_t i) {
    return std::pair(source.label(i), doubt[static_cast<std::size_t>(i)]);
  });
  return order;
}

MnistDataset open_source(const fs::path& folder, Split split) {
  MnistDataset source(folder, split);
  const auto& shape = source.layout().input_shape;
  if (shape[1] == garment_side && shape[2] == garment_side) return source;
  throw InputError(fmt::format("data: the images in {} are {} x {}, expected 28 x 28",
                               folder.string(), shape[1], shape[2]));
}

// Calls `painted` after each image, from any thread.
void write_split(const fs::path& folder, const StandInImages& images, Split split, int threads,
                 const std::function<void()>& painted) {
  const auto files = cifar10_batch_files(split);
  std::int64_t first = 0;
  for (std::size_t file = 0; file < files.size(); ++file) {
    const auto end = images.size() * static_cast<std::int64_t>(file + 1) / std::ssize(files);
    std::vector<std::uint8_t> records(static_cast<std::size_t>(end - first) * cifar10_row_bytes);
    for_each_index(end - first, threads, [&](std::int64_t i) {
      const auto record = std::span(records).subspan(
          static_cast<std::size_t>(i) * cifar10_row_bytes, cifar10_row_bytes);
      record[0] = images.label(first + i);
      images.paint(first + i, record.subspan(1));
      painted();
    });
    write_file_atomically(folder / files[file],
                          {reinterpret_cast<const char*>(records.data()), records.size()});
    first = end;
  }
}

std::vector<std::string_view> entries_of_cifar10() {
  std::vector<std::string_view> entries = {cifar10_names_file};
  for (const auto split : {Split::train, Split::validation}) {
    const auto files = cifar10_batch_files(split);
    entries.insert(entries.end(), files.begin(), files.end());
  }
  return entries;
}

}  // namespace

StandInImages::StandInImages(const StandInOptions& options, Split split)
    : source_(open_source(options.source, split)),
      seed_(derive_seed(options.seed, stand_in_stream, split == Split::train ? 0 : 1)),
      plain_(options.plain) {
  if (options.per_class < 1) {
    throw InputError(
        fmt::format("data: {} images of each class: expected at least 1", options.per_class));
  }
  order_ = all_of(source_);
  if (split == Split::train) {
    order_ = first_of_each_class(source_, options.per_class, options.source);
    shuffle(order_, seed_);
  }
  if (plain_) order_ = clearest_first(source_);
}

std::uint8_t StandInImages::label(std::int64_t index) const {
  return source_.label(order_.at(static_cast<std::size_t>(index)));
}

void StandInImages::paint(std::int64_t index, std::span<std::uint8_t> pixels) const {
  CounterRandom random(seed_, image_stream, static_cast<std::uint64_t>(index));
  const auto place = order_.at(static_cast<std::size_t>(index));
  std::vector<float> distractor;
  if (!plain_ && random.uniform() < .5F) {
    const auto other = random.below(static_cast<std::uint32_t>(order_.size()));
    distractor = read_garment(source_, order_[other]);
  }
  paint_stand_in(read_garment(source_, place), distractor, random, plain_, pixels);
}

std::array<std::int64_t, 2> write_cifar10_stand_in(const fs::path& folder,
                                                   const StandInOptions& stand_in,
                                                   const WriteOptions& options) {
  const auto replaceable = entries_of_cifar10();
  AtomicFolder output(folder,
                      options.replace ? std::span(replaceable) : std::span(replaceable).first(0));
  const StandInImages training(stand_in, Split::train), validation(stand_in, Split::validation);
  std::atomic<std::int64_t> done = 0;
  const auto painted = [&, total = training.size() + validation.size()] {
    const auto now = ++done;
    if (now % progress_step == 0) options.progress(now, total);
  };
  write_split(output.aside(), training, Split::train, options.threads, painted);
  write_split(output.aside(), validation, Split::validation, options.threads, painted);
  std::string names;
  for (const auto name : fashion_mnist_names) names.append(name).append("\n");
  write_file_atomically(output.aside() / cifar10_names_file, names);
  output.commit();
  return {training.size(), validation.size()};
}

}  // namespace kolo
