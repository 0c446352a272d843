#include <algorithm>
#include <map>
#include <span>

#include <fmt/format.h>

#include "tools/kinds.h"
#include "kolo/base/file.h"
#include "kolo/data/cifar10.h"
#include "kolo/data/image.h"
#include "kolo/data/image_folder.h"

namespace kolo {

namespace {

ArrayInspection pixels_of(const std::string& name, std::vector<std::int64_t> shape) {
  ArrayInspection array{.name = name, .type = "uint8", .shape = std::move(shape)};
  for (const auto* const colour : {"red", "green", "blue"})
    array.ranges.emplace_back(colour, Range());
  return array;
}

// Pixels whose colours lie side by side.
void add_pixels(ArrayInspection& array, const Image& image) {
  for (std::size_t i = 0; i < image.pixels.size(); ++i)
    array.ranges[i % 3].second.add(static_cast<double>(image.pixels[i]));
}

// Planes of red, green and blue.
void add_planes(ArrayInspection& array, std::span<const std::uint8_t> pixels) {
  for (std::size_t i = 0; i < pixels.size(); ++i)
    array.ranges[i / (pixels.size() / 3)].second.add(static_cast<double>(pixels[i]));
}

// Counts of images by class: "name": count.
nlohmann::json class_counts(const std::vector<std::string>& names,
                            const std::vector<std::int64_t>& counts) {
  nlohmann::json json;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    json[i < names.size() ? names[i] : fmt::to_string(i)] = counts[i];
  }
  return json;
}

}  // namespace

Inspection inspect_image(const std::filesystem::path& path) {
  std::vector<std::byte> bytes;
  read_image_file(path, bytes);
  const auto format = image_format_of_content(bytes);
  const auto image = decode_image(bytes, path.string());
  Inspection inspection{
      .path = path.string(),
      .format = fmt::format("image, {}", format ? image_format_name(*format) : "unknown"),
      .bytes = bytes.size()};
  inspection.arrays.push_back(pixels_of("pixels", {image.height, image.width, 3}));
  add_pixels(inspection.arrays.front(), image);
  const auto named = image_format_of_name(path);
  if (format && named && *named != *format) {
    inspection.advice.push_back(fmt::format("its name says {}, its content is {}",
                                            image_format_name(*named), image_format_name(*format)));
  }
  return inspection;
}

Inspection inspect_cifar10_batch(const std::filesystem::path& path) {
  const auto bytes = read_text_file(path);
  const auto records = bytes.size() / cifar10_record_bytes;
  Inspection inspection{
      .path = path.string(), .format = "CIFAR-10 batch, binary", .bytes = bytes.size()};
  auto array =
      pixels_of("pixels", {static_cast<std::int64_t>(records), 3, cifar10_side, cifar10_side});
  std::vector<std::int64_t> counts(cifar10_classes);
  for (std::size_t record = 0; record < records; ++record) {
    const auto* const at =
        reinterpret_cast<const std::uint8_t*>(bytes.data()) + record * cifar10_record_bytes;
    ++counts.at(at[0]);
    add_planes(array, {at + 1, cifar10_pixel_bytes});
  }
  inspection.arrays.push_back(std::move(array));
  inspection.facts.emplace_back("images by label", class_counts({}, counts));
  return inspection;
}

Inspection inspect_cifar10_folder(const std::filesystem::path& path) {
  Inspection inspection{.path = path.string(), .format = "CIFAR-10, binary"};
  for (const auto split : {Split::train, Split::validation}) {
    const Cifar10Dataset dataset(path, split);
    const auto* const name = split == Split::train ? "training" : "validation";
    auto array = pixels_of(name, {dataset.size(), 3, cifar10_side, cifar10_side});
    std::vector<std::int64_t> counts(cifar10_classes);
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      ++counts[static_cast<std::size_t>(dataset.label(i))];
      add_planes(array, dataset.pixels(i));
    }
    inspection.bytes += static_cast<std::uint64_t>(dataset.size()) * cifar10_record_bytes;
    inspection.arrays.push_back(std::move(array));
    inspection.facts.emplace_back(fmt::format("{} images by class", name),
                                  class_counts(dataset.class_names(), counts));
  }
  return inspection;
}

Inspection inspect_image_folder(const std::filesystem::path& path) {
  constexpr std::int64_t most_decoded = 64;
  const ImageFolderDataset dataset(path);
  Inspection inspection{.path = path.string(), .format = "folder of images"};
  std::vector<std::int64_t> counts(dataset.class_names().size());
  std::map<std::string, std::int64_t> formats;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    ++counts[static_cast<std::size_t>(dataset.label(i))];
    inspection.bytes += std::filesystem::file_size(dataset.path(i));
    if (const auto format = image_format_of_name(dataset.path(i))) {
      ++formats[std::string(image_format_name(*format))];
    }
  }
  auto pixels = pixels_of("images", {dataset.size()});
  Range heights, widths;
  std::vector<std::byte> bytes;
  const auto decoded = std::min(most_decoded, dataset.size());
  for (std::int64_t i = 0; i < decoded; ++i) {
    const auto file = dataset.path(i * dataset.size() / decoded);
    read_image_file(file, bytes);
    const auto image = decode_image(bytes, file.string());
    heights.add(static_cast<double>(image.height));
    widths.add(static_cast<double>(image.width));
    add_pixels(pixels, image);
  }
  inspection.arrays.push_back(std::move(pixels));
  inspection.facts.emplace_back("images by class", class_counts(dataset.class_names(), counts));
  inspection.facts.emplace_back("formats", formats);
  inspection.facts.emplace_back("images decoded for sizes and ranges", decoded);
  inspection.facts.emplace_back("heights", nlohmann::json{heights.least(), heights.most()});
  inspection.facts.emplace_back("widths", nlohmann::json{widths.least(), widths.most()});
  if (auto left_out = left_out_text(dataset.listing()); !left_out.empty())
    inspection.advice.push_back(std::move(left_out));
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  if (*most > 10 * *least) {
    inspection.advice.push_back(
        fmt::format("classes hold between {} and {} images: the rare ones weigh little in the loss",
                    *least, *most));
  }
  return inspection;
}

}  // namespace kolo
