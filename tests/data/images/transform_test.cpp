#include "kolo/data/augmentation.h"

#include <cmath>
#include <random>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using Pixels = std::vector<float>;

Pixels transformed(Pixels image, std::int64_t channels, std::int64_t height, std::int64_t width,
                   const ImageTransform& transform, const Preprocessing& preprocessing = {}) {
  transform_image(image, channels, height, width, transform, preprocessing);
  return image;
}

Pixels row(Pixels image, const ImageTransform& transform) {
  const auto width = static_cast<std::int64_t>(image.size());
  return transformed(std::move(image), 1, 1, width, transform);
}

TEST(ImageTransform, ShiftsBetweenPixelsAndRepeatsTheEdge) {
  EXPECT_THAT(row({0, 10, 20, 40}, {.shift_x = 1}), ElementsAre(10, 20, 40, 40));
  EXPECT_THAT(row({0, 10, 20, 40}, {.shift_x = -1}), ElementsAre(0, 0, 10, 20));
  EXPECT_THAT(row({0, 10, 20, 40}, {.shift_x = .5}), ElementsAre(5, 15, 30, 40));
  EXPECT_THAT(row({0, 10, 20, 40}, {.shift_x = -1.75}), ElementsAre(0, 0, 2.5, 12.5));
  EXPECT_THAT(row({0, 10, 20, 40}, {.shift_x = 100}), ElementsAre(40, 40, 40, 40));
  EXPECT_THAT(transformed({0, 10, 20, 40}, 1, 4, 1, {.shift_y = .5, .shift_x = 7}),
              ElementsAre(5, 15, 30, 40));
}

TEST(ImageTransform, ZoomsAboutTheMiddle) {
  // Sources of an axis of 4 with its middle at 1.5: .75, 1.25, 1.75, 2.25 and 0 (-.75), 1, 2, 3.
  EXPECT_THAT(row({0, 8, 16, 32}, {.zoom_x = .5}), ElementsAre(6, 10, 14, 20));
  EXPECT_THAT(row({0, 8, 16, 32}, {.zoom_x = 1.5}), ElementsAre(0, 6, 20, 32));
  EXPECT_THAT(row({1, 2, 4}, {.zoom_x = .5}), ElementsAre(1.5, 2, 3));
  EXPECT_THAT(transformed({1, 2, 4}, 1, 3, 1, {.zoom_y = .5, .zoom_x = 3}), ElementsAre(1.5, 2, 3));
}

TEST(ImageTransform, FlipsWhatHasBeenMoved) {
  EXPECT_THAT(row({1, 2, 3}, {.flip = true}), ElementsAre(3, 2, 1));
  EXPECT_THAT(row({0, 10, 20, 40}, {.shift_x = .5, .flip = true}), ElementsAre(40, 30, 15, 5));
}

Pixels random_image(std::mt19937& random, std::size_t size) {
  std::uniform_real_distribution<float> pixel(0, 255);
  Pixels image(size);
  for (float& value : image) value = pixel(random);
  return image;
}

// The definition, one pixel at a time.
double expected_pixel(const Pixels& image, std::int64_t height, std::int64_t width, std::int64_t y,
                      std::int64_t x, const ImageTransform& t) {
  const auto along = [](std::int64_t place, std::int64_t size, double zoom, double shift) {
    const double middle = (static_cast<double>(size) - 1) / 2;
    return std::clamp(zoom * (static_cast<double>(place) - middle) + middle + shift, 0.,
                      static_cast<double>(size) - 1);
  };
  const double sy = along(y, height, t.zoom_y, t.shift_y);
  const double sx = along(t.flip ? width - 1 - x : x, width, t.zoom_x, t.shift_x);
  const auto at = [&](double row, double column) {
    return static_cast<double>(
        image[static_cast<std::size_t>(row) * static_cast<std::size_t>(width) +
              static_cast<std::size_t>(column)]);
  };
  const double fy = sy - std::floor(sy), fx = sx - std::floor(sx);
  return (1 - fy) * ((1 - fx) * at(std::floor(sy), std::floor(sx)) +
                     fx * at(std::floor(sy), std::ceil(sx))) +
         fy *
             ((1 - fx) * at(std::ceil(sy), std::floor(sx)) + fx * at(std::ceil(sy), std::ceil(sx)));
}

TEST(ImageTransform, IsTheBackwardBilinearMap) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> shift(-20, 20), zoom(.3, 2.5);
  for (int round = 0; round < 60; ++round) {
    const std::int64_t height = 1 + random() % 40, width = 1 + random() % 40;
    const ImageTransform transform{shift(random), shift(random), zoom(random), zoom(random),
                                   random() % 2 == 0};
    const auto plane = static_cast<std::size_t>(height * width);
    const auto image = random_image(random, 3 * plane);
    const auto result = transformed(image, 3, height, width, transform);
    for (std::size_t c = 0; c < 3; ++c) {
      const Pixels channel(image.begin() + static_cast<std::ptrdiff_t>(c * plane),
                           image.begin() + static_cast<std::ptrdiff_t>((c + 1) * plane));
      for (std::int64_t y = 0; y < height; ++y) {
        for (std::int64_t x = 0; x < width; ++x) {
          ASSERT_NEAR(result[c * plane + static_cast<std::size_t>(y * width + x)],
                      expected_pixel(channel, height, width, y, x, transform), 1e-3)
              << "round " << round;
        }
      }
    }
  }
}

TEST(ImageTransform, TheIdentityChangesNoBit) {
  std::mt19937 random(2);
  const auto image = random_image(random, 3 * 17 * 23);
  EXPECT_EQ(transformed(image, 3, 17, 23, {}), image);
  // A map that is the identity along one axis only.
  const auto flipped = transformed(image, 3, 17, 23, {.flip = true});
  EXPECT_NE(flipped, image);
  EXPECT_EQ(transformed(flipped, 3, 17, 23, {.flip = true}), image);
}

TEST(Preprocessing, IsDoneAfterTheTransform) {
  const Pixels image{255, 51, 102, 0, 10, 200};  // 3 channels of two pixels
  EXPECT_EQ(transformed(image, 3, 1, 2, {}, Preprocessing::none()), image);
  EXPECT_THAT(transformed(image, 3, 1, 2, {}, Preprocessing::unit()),
              ElementsAre(1, .2F, .4F, 0, 10 / 255.F, 200 / 255.F));
  const auto caffe = Preprocessing::caffe();
  EXPECT_THAT(transformed(image, 3, 1, 2, {}, caffe),
              ElementsAre(10 - 103.939F, 200 - 103.939F, 102 - 116.779F, -116.779F, 255 - 123.68F,
                          51 - 123.68F));
  EXPECT_THAT(transformed(image, 3, 1, 2, {.flip = true}, caffe),
              ElementsAre(200 - 103.939F, 10 - 103.939F, -116.779F, 102 - 116.779F, 51 - 123.68F,
                          255 - 123.68F));
}

TEST(Preprocessing, TakesMeanAndDeviationOfEachChannel) {
  const auto result = transformed({255, 51, 102}, 3, 1, 1, {},
                                  Preprocessing::mean_deviation({.5, .2F, .1F}, {.5, .25, 2}));
  EXPECT_FLOAT_EQ(result[0], 1);
  EXPECT_NEAR(result[1], 0, 1e-6);
  EXPECT_FLOAT_EQ(result[2], .15F);
}

TEST(Preprocessing, RejectsWhatDoesNotFit) {
  const auto rejection = [](const Preprocessing& preprocessing, std::int64_t channels) {
    return message_of<InputError>([&] { preprocessing.check(channels); });
  };
  EXPECT_TRUE(says(rejection({{1, 2}, {1}}, 3), {"2 numbers of mean", "3 ch"}));
  EXPECT_TRUE(says(rejection(Preprocessing::caffe(), 1), {"1 channels"}));
  Preprocessing::unit().check(1);
}

}  // namespace
}  // namespace kolo::testing
