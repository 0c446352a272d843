#include <algorithm>
#include <cmath>

#include "data/images/image_files.h"
#include "kolo/data/image.h"
#include "support/matchers.h"

namespace kolo::testing {
namespace {

std::vector<float> resized_png(const Image& image, std::int64_t height, std::int64_t width) {
  return resized(bytes_of(png_file(image)), height, width);
}

// The definition: each result is the mean of the source under a triangle that is two pixels wide,
// of the source's or the result's, whichever are larger.
std::vector<double> triangle_weights(std::int64_t place, std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double middle = (static_cast<double>(place) + .5) * scale;
  std::vector<double> weights;
  double sum = 0;
  for (std::int64_t i = 0; i < from; ++i) {
    const double distance = std::abs(static_cast<double>(i) + .5 - middle);
    weights.push_back(std::max(0., 1 - distance / std::max(1., scale)));
    sum += weights.back();
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

std::vector<float> reference(const Image& image, std::int64_t height, std::int64_t width) {
  std::vector<float> planes;
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::int64_t y = 0; y < height; ++y) {
      const auto down = triangle_weights(y, image.height, height);
      for (std::int64_t x = 0; x < width; ++x) {
        const auto across = triangle_weights(x, image.width, width);
        double sum = 0;
        for (std::size_t i = 0; i < down.size(); ++i) {
          for (std::size_t j = 0; down[i] > 0 && j < across.size(); ++j) {
            sum += down[i] * across[j] * image.pixels[3 * (i * across.size() + j) + c];
          }
        }
        planes.push_back(static_cast<float>(sum));
      }
    }
  }
  return planes;
}

TEST(Resize, MatchesPixelsByHand) {
  const Image row{1, 4, {0, 0, 0, 40, 4, 8, 80, 80, 80, 255, 255, 255}};
  const auto same = resized_png(row, 1, 4);
  EXPECT_THAT(same, ElementsAre(0, 40, 80, 255, 0, 4, 80, 255, 0, 8, 80, 255));
  // Halved: weights 3/8 3/8 1/8 of the pixels at distances .5, .5, 1.5, cut at the edge.
  const auto half = resized_png(row, 1, 2);
  EXPECT_NEAR(half[0], (3 * 0 + 3 * 40 + 80) / 7., 1e-4);
  EXPECT_NEAR(half[1], (40 + 3 * 80 + 3 * 255) / 7., 1e-4);
  // Doubled: between middles of pixels, the edges repeated.
  const auto twice = resized_png(row, 2, 8);
  EXPECT_THAT(std::vector<float>(twice.begin(), twice.begin() + 8),
              ElementsAre(0, 10, 30, 50, 70, 123.75, 211.25, 255));
  EXPECT_THAT(std::vector<float>(twice.begin() + 8, twice.begin() + 16),
              ElementsAre(0, 10, 30, 50, 70, 123.75, 211.25, 255));
}

TEST(Resize, MatchesTheDefinitionForAllSizes) {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    const std::int64_t from_height = 1 + random() % 50, from_width = 1 + random() % 50;
    const std::int64_t height = 1 + random() % 30, width = 1 + random() % 30;
    const auto image = noise_image(from_height, from_width, static_cast<unsigned>(round));
    EXPECT_LT(
        largest_difference(resized_png(image, height, width), reference(image, height, width)),
        1e-3)
        << from_height << " x " << from_width << " to " << height << " x " << width;
  }
}

TEST(Resize, JpegIsTheWholeImageResized) {
  // Only the full size is large enough, so this is exact.
  const auto image = smooth_image(60, 90);
  const auto file = encode_jpeg(image, 90);
  const auto whole = decode_image(file, "test");
  for (const auto& [height, width] : {std::pair{60, 90}, {31, 46}, {59, 10}, {80, 120}}) {
    EXPECT_LT(largest_difference(resized(file, height, width), reference(whole, height, width)),
              1e-3)
        << height << " x " << width;
  }
}

TEST(Resize, JpegOfReducedSizeIsTheSamePicture) {
  const auto image = smooth_image(203, 305);
  const auto file = encode_jpeg(image, 95);
  const auto whole = decode_image(file, "test");
  // The decoder's reduction is a mean over squares, not under the triangle: it differs a little.
  struct Case {
    std::int64_t height, width;
    double tolerance;
  };
  for (const auto& [height, width, tolerance] :
       {Case{102, 153, 2.5}, {101, 153, 2.5}, {50, 70, 3}, {26, 39, 4}, {9, 7, 6}}) {
    EXPECT_LT(largest_difference(resized(file, height, width), reference(whole, height, width)),
              tolerance)
        << height << " x " << width;
  }
}

}  // namespace
}  // namespace kolo::testing
