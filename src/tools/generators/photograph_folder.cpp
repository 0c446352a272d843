#include "kolo/tools/generators.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstddef>

#include <fcntl.h>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/random.h"
#include "kolo/data/image.h"
#include "tools/generators/generator_tools.h"

namespace kolo {

namespace {

constexpr auto small_plane = static_cast<std::size_t>(cifar10_side * cifar10_side);

struct Size {
  std::int64_t height = 0, width = 0;
};

// Draws an aspect, mostly 4:3, as photographs have it.
float draw_aspect(CounterRandom& random) {
  constexpr std::array<float, 10> aspects = {4 / 3.0F, 4 / 3.0F, 4 / 3.0F, 4 / 3.0F, 3 / 4.0F,
                                             3 / 4.0F, 3 / 2.0F, 2 / 3.0F, 1,        16 / 9.0F};
  return aspects[random.below(aspects.size())];
}

Size draw_size(CounterRandom& random, std::int64_t least_side, std::int64_t most_side) {
  const auto low = static_cast<float>(least_side), high = static_cast<float>(most_side);
  const float area_side = low * std::pow(high / low, random.uniform());
  const float stretch = std::sqrt(draw_aspect(random));
  const auto side_of = [&](float length) {
    return std::clamp<std::int64_t>(std::lround(length), least_side, most_side);
  };
  return {side_of(area_side / stretch), side_of(area_side * stretch)};
}

// Places in the small image that a row or column of pixels shows. Half of a picture's aspect comes
// from stretching, half from cutting.
std::vector<float> positions_in_small(std::int64_t pixels, std::int64_t other_side) {
  const auto length = static_cast<float>(pixels);
  const float seen = std::min(1.0F, std::sqrt(length / static_cast<float>(other_side)));
  std::vector<float> positions(static_cast<std::size_t>(pixels));
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const float from_middle = (static_cast<float>(i) + .5F) / length - .5F;
    positions[i] = (.5F + seen * from_middle) * cifar10_side - .5F;
  }
  return positions;
}

// Interpolation with cubic splines through the points (R. Keys, "Cubic convolution interpolation
// for digital image processing", 1981, a = -1/2).
struct CubicTaps {
  std::int64_t first = 0;  // of the four points around a place; point i is at place i
  std::array<float, 4> weights{};
};

std::vector<CubicTaps> taps_of(std::span<const float> positions) {
  std::vector<CubicTaps> taps;
  for (const float place : positions) {
    const float floor = std::floor(place);
    const float t = place - floor, t2 = t * t, t3 = t2 * t;
    taps.push_back({static_cast<std::int64_t>(floor) - 1,
                    {.5F * (-t3 + 2 * t2 - t), .5F * (3 * t3 - 5 * t2 + 2),
                     .5F * (-3 * t3 + 4 * t2 + t), .5F * (t3 - t2)}});
  }
  return taps;
}

// Places of the pixels' middles in a lattice of so many cells, one point before the first cell.
std::vector<float> lattice_positions(float cells, std::int64_t pixels) {
  std::vector<float> positions(static_cast<std::size_t>(pixels));
  for (std::size_t i = 0; i < positions.size(); ++i) {
    positions[i] = 1 + (static_cast<float>(i) + .5F) * cells / static_cast<float>(pixels);
  }
  return positions;
}

// A plane of rows x columns numbers, resampled at the given places (in rows and columns) to
// row_positions x column_positions numbers. Points beyond the edges are those of the edge.
std::vector<float> resample(std::span<const float> plane, std::int64_t rows, std::int64_t columns,
                            std::span<const float> row_positions,
                            std::span<const float> column_positions) {
  const auto row_taps = taps_of(row_positions), column_taps = taps_of(column_positions);
  const auto width = column_taps.size();
  std::vector<float> wide(static_cast<std::size_t>(rows) * width);  // resampled along rows
  const auto at_edge = [](std::int64_t place, std::int64_t size) {
    return static_cast<std::size_t>(std::clamp<std::int64_t>(place, 0, size - 1));
  };
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto line = plane.subspan(static_cast<std::size_t>(row * columns));
    for (std::size_t x = 0; x < width; ++x) {
      const auto& [first, weights] = column_taps[x];
      float sum = 0;
      for (int i = 0; i < 4; ++i) {
        sum += weights[static_cast<std::size_t>(i)] * line[at_edge(first + i, columns)];
      }
      wide[static_cast<std::size_t>(row) * width + x] = sum;
    }
  }
  std::vector<float> result(row_taps.size() * width);
  for (std::size_t y = 0; y < row_taps.size(); ++y) {
    const auto& [first, weights] = row_taps[y];
    const auto out = std::span(result).subspan(y * width, width);
    for (int i = 0; i < 4; ++i) {
      const auto line = std::span(wide).subspan(at_edge(first + i, rows) * width, width);
      const float weight = weights[static_cast<std::size_t>(i)];
      for (std::size_t x = 0; x < width; ++x) out[x] += weight * line[x];
    }
  }
  return result;
}

// Grain of one to seven pixels; without it, so enlarged an image would compress into almost
// nothing.
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

// A JPEG file of a small image (3072 bytes as CIFAR-10 has them), enlarged to a size, an aspect
// and with a quality that `random` decides; both sides within [least_side, most_side].
std::vector<std::byte> photograph(std::span<const std::uint8_t> pixels, CounterRandom& random,
                                  std::int64_t least_side, std::int64_t most_side) {
  const auto size = draw_size(random, least_side, most_side);
  const auto grain = draw_grain(random, size);
  const auto row_positions = positions_in_small(size.height, size.width);
  const auto column_positions = positions_in_small(size.width, size.height);
  Image image{size.height, size.width, std::vector<std::uint8_t>(grain.size() * 3)};
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const auto bytes = pixels.subspan(channel * small_plane, small_plane);
    const std::vector<float> plane(bytes.begin(), bytes.end());
    const auto large = resample(plane, cifar10_side, cifar10_side, row_positions, column_positions);
    for (std::size_t i = 0; i < grain.size(); ++i) {
      image.pixels[i * 3 + channel] =
          static_cast<std::uint8_t>(std::clamp(large[i] + grain[i] + .5F, 0.0F, 255.0F));
    }
  }
  const int quality = 75 + static_cast<int>(random.below(21));
  const bool grey = random.below(20) == 0;
  return encode_jpeg(image, quality, grey ? JpegColours::grey : JpegColours::all);
}

namespace fs = std::filesystem;

// Keeps these numbers independent of those that other generators and training draw from a seed.
constexpr std::uint32_t photograph_stream = 0xF0706247;
constexpr std::int64_t training_to_validation = 5;
constexpr std::array<std::string_view, 2> split_folders = {"train", "valid"};

void check(const PhotographFolderOptions& options) {
  constexpr std::int64_t least = 16, most = 8192;
  if (options.least_side < least || options.most_side > most ||
      options.least_side > options.most_side) {
    throw InputError(fmt::format("data: sizes of {} to {} pixels: expected {} to {}, least first",
                                 options.least_side, options.most_side, least, most));
  }
}

// A file to write, and the image that it shows.
struct Task {
  std::int64_t image = 0;
  fs::path file;
};

// Plans the files of the first images of each class; makes the classes' folders.
std::vector<Task> plan(const fs::path& folder, const StandInImages& images,
                       std::span<const std::string> folders, std::int64_t per_class) {
  for (const auto& name : folders) fs::create_directories(folder / name);
  std::vector<std::int64_t> counts(folders.size());
  std::vector<Task> tasks;
  for (std::int64_t image = 0; image < images.size(); ++image) {
    const auto label = images.label(image);
    if (counts.at(label) == per_class) continue;
    const auto name = fmt::format("{}_{:05}.jpg", folders[label], counts[label]++);
    tasks.push_back({image, folder / folders[label] / name});
  }
  for (std::size_t label = 0; label < counts.size(); ++label) {
    if (counts[label] == per_class) continue;
    throw InputError(fmt::format("data: {} images of class {} asked for, there are {}", per_class,
                                 folders[label], counts[label]));
  }
  return tasks;
}

// Writes a file without flushing it: the whole folder is flushed at once.
void write_file(const fs::path& path, std::span<const std::byte> bytes) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.is_open()) {
    throw Error(system_error_text(fmt::format("data: cannot create {}", path.string()), errno));
  }
  write_all(file.get(), bytes, path);
  file.close(path);
}

// "0_t_shirt_top" for label 0, "T-shirt/top": sorted by name, the folders have their labels' order.
std::string class_folder(std::int64_t label, std::string_view name) {
  auto folder = fmt::format("{}_{}", label, name);
  for (char& letter : folder) {
    const auto byte = static_cast<unsigned char>(letter);
    letter = std::isalnum(byte) != 0 ? static_cast<char>(std::tolower(byte)) : '_';
  }
  return folder;
}

}  // namespace

std::array<std::int64_t, 2> write_photograph_folder(const fs::path& folder,
                                                    const PhotographFolderOptions& options,
                                                    const WriteOptions& write) {
  check(options);
  AtomicFolder output(folder, std::span(split_folders).first(write.replace ? 2 : 0));
  const auto& stand_in = options.stand_in;
  const StandInImages training(stand_in, Split::train), validation(stand_in, Split::validation);
  std::vector<std::string> folders;
  for (const auto name : fashion_mnist_names)
    folders.push_back(class_folder(std::ssize(folders), name));
  const auto tasks = plan(output.aside() / split_folders[0], training, folders, stand_in.per_class);
  const auto validation_tasks =
      plan(output.aside() / split_folders[1], validation, folders,
           std::max<std::int64_t>(1, stand_in.per_class / training_to_validation));
  const auto total = std::ssize(tasks) + std::ssize(validation_tasks);
  std::atomic<std::int64_t> done = 0;
  const auto write_split = [&](const StandInImages& images, const std::vector<Task>& files,
                               std::uint32_t split) {
    const auto seed = derive_seed(stand_in.seed, photograph_stream, split);
    for_each_index(std::ssize(files), write.threads, [&](std::int64_t number) {
      const auto& [image, file] = files[static_cast<std::size_t>(number)];
      std::array<std::uint8_t, cifar10_pixel_bytes> pixels{};
      images.paint(image, pixels);
      CounterRandom random(seed, 0, static_cast<std::uint64_t>(number));
      write_file(file, photograph(pixels, random, options.least_side, options.most_side));
      write.progress(++done, total);
    });
  };
  write_split(training, tasks, 0);
  write_split(validation, validation_tasks, 1);
  output.commit();
  return {std::ssize(tasks), std::ssize(validation_tasks)};
}

std::vector<float> value_noise(CounterRandom& random, float row_cells, float column_cells,
                               std::int64_t height, std::int64_t width) {
  // Three points more than cells, because cubic interpolation reaches beyond the outermost cells.
  const auto rows = static_cast<std::int64_t>(std::ceil(row_cells)) + 3;
  const auto columns = static_cast<std::int64_t>(std::ceil(column_cells)) + 3;
  std::vector<float> lattice(static_cast<std::size_t>(rows * columns));
  for (float& value : lattice) value = random.uniform();
  return resample(lattice, rows, columns, lattice_positions(row_cells, height),
                  lattice_positions(column_cells, width));
}

}  // namespace kolo
