#include "kolo/data/image_folder.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/natural_order.h"
#include "kolo/base/error.h"
#include "kolo/data/image.h"

namespace kolo {

namespace {

void check_options(const ImageFolderOptions& options) {
  constexpr std::int64_t most_side = 16384;
  for (const auto& [name, side] : {std::pair{"height", options.height}, {"width", options.width}}) {
    if (side < 1 || side > most_side) {
      throw InputError(
          fmt::format("data: the {} of images is {}, expected 1 to {}", name, side, most_side));
    }
  }
}

void check_format(std::span<const std::byte> file, const std::filesystem::path& path) {
  const auto content = image_format_of_content(file), name = image_format_of_name(path);
  if (!content || content == name) return;  // what no decoder knows, decoding says better
  throw InputError(fmt::format(
      "data: {} is {} by its name but {} by its content; rename or replace it", path.string(),
      name ? image_format_name(*name) : "no image", image_format_name(*content)));
}

// "a, b, c and 5 more"
std::string first_few(const std::vector<std::string>& names) {
  constexpr std::size_t most = 5;
  const auto shown = std::min(names.size(), most);
  auto text = fmt::format(
      "{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

std::vector<std::string> missing_from(const std::vector<std::string>& some,
                                      const std::vector<std::string>& others) {
  std::vector<std::string> missing;
  std::ranges::set_difference(others, some, std::back_inserter(missing), comes_before);
  return missing;
}

}  // namespace

ImageFolderDataset::ImageFolderDataset(const std::filesystem::path& root,
                                       ImageFolderOptions options, bool inspect_sizes)
    : root_(root), options_(options), listing_(list_image_folder(root, inspect_sizes)) {
  check_options(options_);
  layout_.input_shape = {3, options_.height, options_.width};
  layout_.classes = static_cast<std::int64_t>(listing_.classes.size());
}

std::filesystem::path ImageFolderDataset::path(std::int64_t index) const {
  return root_ / listing_.classes[static_cast<std::size_t>(label(index))] / listing_.name(index);
}

void ImageFolderDataset::read(std::int64_t index, std::int64_t epoch,
                              const SamplePlace& place) const {
  check_read(index, place, static_cast<std::size_t>(layout_.input_size()), 1);
  const auto file = path(index);
  static thread_local std::vector<std::byte> bytes;  // kept from image to image
  read_image_file(file, bytes);
  check_format(bytes, file);
  ChooseWindow choose;
  if (options_.random_crop > 0) {
    choose = [&](std::int64_t height, std::int64_t width) {
      return draw_random_crop(options_.random_crop, options_.seed, epoch, index, height, width);
    };
  }
  decode_resized(bytes, file.native(), options_.height, options_.width, place.input, choose);
  place.label[0] = label(index);
}

void require_same_classes(const ImageFolderDataset& training,
                          const ImageFolderDataset& validation) {
  const auto check = [](const ImageFolderDataset& some, const ImageFolderDataset& others) {
    const auto missing = missing_from(some.class_names(), others.class_names());
    if (missing.empty()) return;
    throw InputError(fmt::format(
        "data: training and validation images must have the same classes: {} has no folder {}, "
        "which {} has",
        some.root().string(), first_few(missing), others.root().string()));
  };
  check(training, validation);
  check(validation, training);
}

}  // namespace kolo
