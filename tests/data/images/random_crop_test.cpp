#include "kolo/data/image.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>

#include "data/images/image_files.h"
#include "data/images/jpeg_files.h"

namespace kolo::testing {
namespace {

struct Pixels {
  double top, left, height, width;
};
Pixels pixels_of(const ImageWindow& window, std::int64_t height, std::int64_t width) {
  const auto rows = static_cast<double>(height), columns = static_cast<double>(width);
  return {window.top * rows, window.left * columns, window.height * rows, window.width * columns};
}

bool is_whole(double number) {
  return std::abs(number - std::round(number)) < 1e-9;
}

TEST(RandomCrop, IsAPartOfTheAreaAndAspectThatAreAllowed) {
  constexpr std::int64_t height = 300, width = 400, count = 4000;
  double area = 0, log_aspect = 0, middle = 0, smallest = 1;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto crop = pixels_of(draw_random_crop(.08, 3, 5, i, height, width), height, width);
    for (const double number : {crop.top, crop.left, crop.height, crop.width})
      EXPECT_TRUE(is_whole(number)) << number;
    EXPECT_GE(crop.top, 0);
    EXPECT_GE(crop.left, 0);
    EXPECT_LE(crop.top + crop.height, height + 1e-9);
    EXPECT_LE(crop.left + crop.width, width + 1e-9);
    const double part = crop.height * crop.width / (height * width);
    EXPECT_GT(part, .075);
    EXPECT_LE(part, 1);
    EXPECT_GT(crop.width / crop.height, .73);
    EXPECT_LT(crop.width / crop.height, 1.37);
    smallest = std::min(smallest, part);
    area += part / count;
    log_aspect += std::log(crop.width / crop.height) / count;
    middle += (crop.top + crop.height / 2) / height / count;
  }
  EXPECT_LT(smallest, .1);
  // Uniform between .08 and 1 but for what doesn't fit, which is large: 200 000 draws by
  // torchvision's rules come to .433 in images of these lengths.
  EXPECT_NEAR(area, .433, .01);
  EXPECT_NEAR(log_aspect, 0, .03);
  EXPECT_NEAR(middle, .5, .01);
}

TEST(RandomCrop, DependsOnSeedEpochAndIndex) {
  const auto at = [](std::uint64_t seed, std::int64_t epoch, std::int64_t index) {
    const auto crop = draw_random_crop(.08, seed, epoch, index, 224, 224);
    return std::array{crop.top, crop.left, crop.height, crop.width};
  };
  EXPECT_EQ(at(1, 2, 3), at(1, 2, 3));
  EXPECT_NE(at(1, 2, 3), at(2, 2, 3));
  EXPECT_NE(at(1, 2, 3), at(1, 3, 3));
  EXPECT_NE(at(1, 2, 3), at(1, 2, 4));
}

// As much of the middle as an allowed aspect leaves.
TEST(RandomCrop, OfLongImagesTheMiddleIsTakenWhereNothingFits) {
  constexpr double nearly_all = .9;
  const auto wide = pixels_of(draw_random_crop(nearly_all, 1, 0, 0, 30, 300), 30, 300);
  EXPECT_NEAR(wide.height, 30, 1e-9);
  EXPECT_NEAR(wide.width, 40, 1e-9);
  EXPECT_NEAR(wide.left, 130, 1e-9);
  const auto tall = pixels_of(draw_random_crop(nearly_all, 1, 0, 0, 300, 30), 300, 30);
  EXPECT_NEAR(tall.width, 30, 1e-9);
  EXPECT_NEAR(tall.height, 40, 1e-9);
  EXPECT_NEAR(tall.top, 130, 1e-9);
}

Image part_of(const Image& image, std::int64_t top, std::int64_t left, std::int64_t height,
              std::int64_t width) {
  Image part{height, width, {}};
  for (std::int64_t y = top; y < top + height; ++y)
    for (std::int64_t i = 3 * left; i < 3 * (left + width); ++i)
      part.pixels.push_back(image.pixels[static_cast<std::size_t>(3 * y * image.width + i)]);
  return part;
}

// Larger and smaller than the part.
TEST(RandomCrop, APartIsResizedAsIfItWereTheWholeImage) {
  const auto image = noise_image(40, 64);
  const auto file = png_file(image);
  for (const auto& [top, left, height, width] :
       {std::array{0, 0, 40, 64}, std::array{7, 11, 8, 10}, std::array{39, 63, 1, 1},
        std::array{0, 30, 40, 34}, std::array{21, 0, 19, 3}}) {
    const ImageWindow window{top / 40., left / 64., height / 40., width / 64.};
    const auto part = png_file(part_of(image, top, left, height, width));
    for (const auto& [rows, columns] : {std::pair{16, 16}, std::pair{5, 90}})
      EXPECT_LT(largest_difference(resized(bytes_of(file), rows, columns, window),
                                   resized(bytes_of(part), rows, columns)),
                1e-2)
          << top << " " << left << " to " << rows;
  }
}

// The decoder makes the image smaller first, but not the part less than is wanted.
TEST(RandomCrop, APartOfAJpegKeepsItsDetail) {
  const auto image = testing::smooth_image(480, 640);
  const auto file = testing::jpeg_file(480, 640, image.pixels, {});
  const ImageWindow window{120 / 480., 160 / 640., 240 / 480., 240 / 640.};
  const auto expected = resized(bytes_of(png_file(part_of(image, 120, 160, 240, 240))), 56, 56);
  EXPECT_LT(largest_difference(resized(bytes_of(file), 56, 56, window), expected), 8);
}

}  // namespace
}  // namespace kolo::testing
