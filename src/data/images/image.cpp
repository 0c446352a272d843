#include "kolo/data/image.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "data/images/image_kernels.h"
#include "data/images/image_rows.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/file_kind.h"
#include "kolo/base/text.h"

namespace kolo {

std::string_view image_format_name(ImageFormat format) {
  return format == ImageFormat::jpeg ? "JPEG" : "PNG";
}

std::optional<ImageFormat> image_format_of_content(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("\xff\xd8\xff")) return ImageFormat::jpeg;
  if (text.starts_with("\x89PNG\r\n\x1a\n")) return ImageFormat::png;
  return std::nullopt;
}

bool has_image_name(const std::filesystem::path& path) {
  const auto extension = lower_case(path.extension().native());
  return extension == ".jpg" || extension == ".jpeg" || extension == ".jfif" ||
         extension == ".jpe" || extension == ".png";
}

namespace images {

namespace {

// Weights of an axis: place i of the result is the weighted sum of `taps` places of the source from
// first[i] on. The filter is a triangle as wide as two of the larger pixels, cut at the edges; the
// weights of a place add up to 1.
struct AxisFilter {
  std::size_t taps = 0;
  std::vector<std::int32_t> first;
  std::vector<float> weights;  // result places x taps
};

struct Window {
  double middle, reach;
  std::int64_t begin, end;
};

// Resampling of an axis: [begin, begin + length) of `from` source pixels becomes `to` pixels.
struct Axis {
  std::int64_t from;
  double begin, length;
  std::int64_t to;
};

Window window_of(std::int64_t place, const Axis& axis) {
  const double scale = axis.length / static_cast<double>(axis.to);
  const double middle = axis.begin + (static_cast<double>(place) + .5) * scale;
  const double reach = std::max(scale, 1.);
  // Places of the stretch whose middles are within reach, at least the one of `middle`.
  const auto first = std::floor(axis.begin), last = std::ceil(axis.begin + axis.length);
  const auto begin = std::max(first, std::floor(middle - reach + .5));
  const auto end = std::min(
      {static_cast<double>(axis.from), std::max(last, first + 1), std::floor(middle + reach + .5)});
  return {middle, reach, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)};
}

std::size_t taps_of(const Axis& axis) {
  std::int64_t most = 1;
  for (std::int64_t i = 0; i < axis.to; ++i) {
    const auto window = window_of(i, axis);
    most = std::max(most, window.end - window.begin);
  }
  return static_cast<std::size_t>(most);
}

void fill_filter(AxisFilter& filter, const Axis& axis) {
  filter.taps = taps_of(axis);
  filter.first.resize(static_cast<std::size_t>(axis.to));
  filter.weights.resize(filter.first.size() * filter.taps);
  const auto taps = static_cast<std::int64_t>(filter.taps);
  for (std::int64_t i = 0; i < axis.to; ++i) {
    const auto window = window_of(i, axis);
    // All have as many taps, so those at the end begin earlier, with weights of 0.
    const auto first = std::min(window.begin, axis.from - taps);
    float* const weights = filter.weights.data() + i * taps;
    filter.first[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(first);
    const auto weight = [&](std::int64_t place) {
      const double distance = std::abs(static_cast<double>(place) + .5 - window.middle);
      const bool is_inside = place >= window.begin && place < window.end;
      return is_inside ? std::max(0., 1 - distance / window.reach) : 0.;
    };
    double sum = 0;
    for (std::int64_t k = 0; k < taps; ++k) sum += weight(first + k);
    for (std::int64_t k = 0; k < taps; ++k)
      weights[k] = static_cast<float>(weight(first + k) / sum);
  }
}

// The last rows read, as many as one row of the result is made of.
//
// They lie a pixel off the boundaries of cache lines, because libjpeg-turbo writes to places that
// are aligned past the cache, straight to memory, from where they would have to be fetched again.
class RowWindow {
 public:
  RowWindow(ImageRows& rows, std::size_t count, std::size_t row_bytes,
            std::vector<std::uint8_t>& memory)
      : rows_(rows), count_(count), stride_(divide_up(row_bytes, line) * line) {
    memory.resize(checked_add(checked_multiply(count, stride_), 2 * line));
    const auto past_line = reinterpret_cast<std::uintptr_t>(memory.data()) % line;
    places_ = memory.data() + (line - past_line) + 4;
  }

  const std::uint8_t* row(std::size_t y) {
    while (read_ <= y) rows_.read(place(read_++));
    return place(y);
  }

 private:
  static constexpr std::size_t line = 64;

  std::uint8_t* place(std::size_t y) { return places_ + y % count_ * stride_; }

  ImageRows& rows_;
  std::size_t count_, stride_;
  std::uint8_t* places_ = nullptr;
  std::size_t read_ = 0;
};

// Reads rows, and writes a part of the image resized to `size` as {3, height, width} floats of
// 0..255. Memory is kept from image to image, for each thread.
void resize_rows(ImageRows& rows, const ImageWindow& part, const ImageSize& size,
                 std::span<float> planes) {
  static thread_local AxisFilter row_filter, column_filter;
  static thread_local std::vector<float> sums;
  static thread_local std::vector<std::uint8_t> row_memory;
  const auto& from = rows.size();
  const auto height = narrow<std::size_t>(size.height), width = narrow<std::size_t>(size.width);
  const auto filled_height = rows.filled_height(), filled_width = rows.filled_width();
  fill_filter(row_filter,
              {from.height, part.top * filled_height, part.height * filled_height, size.height});
  fill_filter(column_filter,
              {from.width, part.left * filled_width, part.width * filled_width, size.width});
  sums.resize(checked_multiply(narrow<std::size_t>(from.width), std::size_t{4}));

  const auto taps = row_filter.taps;
  RowWindow window(rows, taps, sums.size(), row_memory);
  std::vector<const std::uint8_t*> sources(taps);
  float* red = planes.data();
  for (std::size_t y = 0; y < height; ++y, red += width) {
    const auto first = static_cast<std::size_t>(row_filter.first[y]);
    for (std::size_t k = 0; k < taps; ++k) sources[k] = window.row(first + k);
    mix_byte_rows(sources.data(), row_filter.weights.data() + y * taps, taps, sums.data(),
                  sums.size());
    mix_columns(sums.data(), column_filter.first.data(), column_filter.weights.data(),
                column_filter.taps, red, red + height * width, red + 2 * height * width, width);
  }
}

// Opens an image and has `use` read its rows; errors get the file's name.
template <typename Use>
void decode(std::span<const std::byte> file, std::string_view name, const ImageSize& wanted,
            const ImageLimits& limits, const Use& use) {
  const auto format = image_format_of_content(file);
  if (!format) {
    throw InputError(fmt::format(
        "data: {} is no image: {}, expected JPEG or PNG", name,
        other_file_text(content_of(file), "its first bytes are of no format that can be read")));
  }
  try {
    const auto rows =
        *format == ImageFormat::jpeg ? open_jpeg(file, wanted, limits) : open_png(file, limits);
    use(*rows);
  } catch (const InputError& error) {
    throw InputError(fmt::format("data: cannot decode {} ({}): {}", name,
                                 image_format_name(*format), error.what()));
  }
}

}  // namespace

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

ImageSize image_size(std::span<const std::byte> file, std::string_view name,
                     const ImageLimits& limits) {
  ImageSize size;
  images::decode(file, name, {}, limits, [&](images::ImageRows& rows) { size = rows.size(); });
  return size;
}

void decode_resized(std::span<const std::byte> file, std::string_view name, std::int64_t height,
                    std::int64_t width, std::span<float> planes, const ImageWindow& part,
                    const ImageLimits& limits) {
  // Length of the whole image if a part is to have `length`.
  const auto whole = [](std::int64_t length, double fraction) {
    return static_cast<std::int64_t>(std::ceil(static_cast<double>(length) / fraction));
  };
  images::decode(file, name, {whole(height, part.height), whole(width, part.width)}, limits,
                 [&](images::ImageRows& rows) {
                   images::resize_rows(rows, part, {height, width}, planes);
                 });
}

void read_image_file(const std::filesystem::path& path, std::vector<std::byte>& bytes,
                     const ImageLimits& limits) {
  const auto fail = [&](const std::string& reason) {
    throw InputError(fmt::format("data: cannot read the image {}: {}", path.string(), reason));
  };
  try {
    const FileDescriptor file = open_regular_file(path);
    const auto size = size_in_bytes(file, path);
    if (size == 0) fail("it is empty");
    if (size > limits.most_file_bytes)
      fail(fmt::format("it has {} bytes, expected at most {}", size, limits.most_file_bytes));
    bytes.resize(narrow<std::size_t>(size));
    bytes.resize(read_up_to(file.get(), bytes, path));
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    fail(error.what());
  }
}

}  // namespace kolo
