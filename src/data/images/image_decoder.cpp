#include "kolo/data/image_decoder.h"

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include <sys/stat.h>

#include <fmt/format.h>

#include "data/images/image_rows.h"
#include "data/images/resize.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"

namespace kolo {

namespace images {

void check_size(std::int64_t height, std::int64_t width, const ImageLimits& limits) {
  const auto side = std::max(height, width);
  if (std::min(height, width) >= 1 && side <= limits.most_side &&
      height <= limits.most_pixels / width) {
    return;
  }
  throw InputError(
      fmt::format("it is {} pixels high and {} wide, expected 1 to {} each and at most {} together",
                  height, width, limits.most_side, limits.most_pixels));
}

namespace {

std::unique_ptr<ImageRows> open_image(std::span<const std::byte> file, ImageFormat format,
                                      const ImageSize& wanted, const ImageLimits& limits) {
  switch (format) {
    case ImageFormat::jpeg:
      return open_jpeg(file, wanted, limits);
    case ImageFormat::png:
      return open_png(file, limits);
    case ImageFormat::bmp:
      return open_bmp(file, limits);
    case ImageFormat::ppm:
      return open_ppm(file, limits);
  }
  throw Error("data: unknown image format");
}

// Opens an image and has `use` read its rows; what goes wrong gets the file's name.
template <typename Use>
void decode(std::span<const std::byte> file, std::string_view name, const ImageSize& wanted,
            const ImageLimits& limits, const Use& use) {
  const auto format = image_format_of_content(file);
  if (!format) {
    throw InputError(fmt::format(
        "data: {} is no image: {}, expected JPEG, PNG, BMP, PPM or PGM", name,
        file.empty() ? "it is empty" : "its first bytes are of no format that can be read"));
  }
  try {
    use(*open_image(file, *format, wanted, limits));
  } catch (const InputError& error) {
    throw InputError(fmt::format("data: cannot decode {} ({}): {}", name,
                                 image_format_name(*format), error.what()));
  }
}

}  // namespace

}  // namespace images

Image decode_image(std::span<const std::byte> file, std::string_view name,
                   const ImageLimits& limits) {
  Image image;
  images::decode(file, name, {}, limits, [&](images::ImageRows& rows) {
    image.height = rows.size().height;
    image.width = rows.size().width;
    const auto width = narrow<std::size_t>(image.width);
    image.pixels.reserve(checked_multiply(narrow<std::size_t>(image.height), 3 * width));
    std::vector<std::uint8_t> row(4 * width);
    for (std::int64_t y = 0; y < image.height; ++y) {
      rows.read(row.data());
      for (std::size_t x = 0; x < width; ++x) {
        image.pixels.insert(image.pixels.end(), {row[4 * x], row[4 * x + 1], row[4 * x + 2]});
      }
    }
  });
  return image;
}

void decode_resized(std::span<const std::byte> file, std::string_view name, std::int64_t height,
                    std::int64_t width, std::span<float> planes, DecodeWorkspace& workspace,
                    const ImageLimits& limits) {
  if (height < 1 || width < 1 ||
      !std::cmp_equal(planes.size(),
                      checked_multiply(checked_multiply(height, width), std::int64_t{3}))) {
    throw Error(fmt::format("data: an image of 3 x {} x {} in a place of {} numbers", height, width,
                            planes.size()));
  }
  images::decode(file, name, {height, width}, limits, [&](images::ImageRows& rows) {
    images::resize_rows(rows, {height, width}, planes, workspace);
  });
}

void read_image_file(const std::filesystem::path& path, std::vector<std::byte>& bytes,
                     const ImageLimits& limits) {
  const auto fail = [&](const std::string& reason) {
    throw InputError(fmt::format("data: cannot read the image {}: {}", path.string(), reason));
  };
  try {
    const FileDescriptor file = open_regular_file(path);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) fail(system_error_text("cannot inspect it", errno));
    if (status.st_size == 0) fail("it is empty");
    if (status.st_size > limits.most_file_bytes) {
      fail(fmt::format("it has {} bytes, expected at most {}", status.st_size,
                       limits.most_file_bytes));
    }
    bytes.resize(narrow<std::size_t>(status.st_size));
    bytes.resize(read_up_to(file.get(), bytes, path));
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    fail(error.what());
  }
}

}  // namespace kolo
