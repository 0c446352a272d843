#include <cmath>
#include <limits>
#include <memory>

#include "data/read_sample.h"
#include "kolo/base/error.h"
#include "kolo/data/augmentation.h"
#include "kolo/data/dataset.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

const AugmentationOptions everything{.height_shift = .33,
                                     .width_shift = .2,
                                     .zoom_low = .5,
                                     .zoom_high = 1.5,
                                     .horizontal_flip = true};

std::shared_ptr<const Dataset> images(std::int64_t count, std::int64_t height = 12,
                                      std::int64_t width = 20) {
  return std::make_shared<RandomDataset>(SampleLayout{{3, height, width}, 10, {}}, count, 1);
}

TEST(AugmentedDataset, DrawsEachOptionFromItsRange) {
  const AugmentedDataset dataset(images(2000, 100, 50), everything, {}, 3);
  double flips = 0, shift_y = 0, shift_x = 0, zoom = 0;
  for (std::int64_t i = 0; i < 2000; ++i) {
    const auto t = dataset.transform(i, 0);
    EXPECT_LE(std::abs(t.shift_y), 33);
    EXPECT_LE(std::abs(t.shift_x), 10);
    EXPECT_TRUE(t.zoom_y >= .5 && t.zoom_y < 1.5 && t.zoom_x >= .5 && t.zoom_x < 1.5);
    shift_y += std::abs(t.shift_y) / 2000;
    shift_x += std::abs(t.shift_x) / 2000;
    zoom += t.zoom_y * t.zoom_x / 2000;
    flips += t.flip / 2000.;
  }
  EXPECT_NEAR(flips, .5, .05);
  EXPECT_NEAR(shift_y, 16.5, 1);
  EXPECT_NEAR(shift_x, 5, .3);
  EXPECT_NEAR(zoom, 1, .03);  // as of independent numbers
}

TEST(AugmentedDataset, DependsOnSeedEpochAndIndexOnly) {
  const auto source = images(50);
  const AugmentedDataset a(source, everything, {}, 3), b(source, everything, {}, 3),
      other(source, everything, {}, 4);
  for (std::int64_t i = 49; i >= 0; --i) {
    const auto sample = read_sample(a, i, 2);
    EXPECT_EQ(sample, read_sample(b, i, 2));
    EXPECT_NE(sample, read_sample(a, i, 3));
    EXPECT_NE(sample, read_sample(other, i, 2));
    EXPECT_NE(a.transform(i, 2).shift_x, a.transform((i + 1) % 50, 2).shift_x);
  }
}

TEST(AugmentedDataset, AppliesWhatItDraws) {
  const auto source = images(20);
  const auto preprocessing = Preprocessing::caffe();
  const AugmentedDataset dataset(source, everything, preprocessing, 3);
  for (std::int64_t i = 0; i < 20; ++i) {
    auto expected = read_sample(*source, i, 1).input;
    transform_image(expected, 3, 12, 20, dataset.transform(i, 1), preprocessing);
    EXPECT_EQ(read_sample(dataset, i, 1).input, expected);
  }
  EXPECT_TRUE(AugmentationOptions().is_identity());
  EXPECT_EQ(read_sample(AugmentedDataset(source, {}, {}, 3), 7, 5), read_sample(*source, 7, 5));
}

TEST(AugmentedDataset, RejectsOptionsOutOfRange) {
  const auto rejection = [](const AugmentationOptions& options, const Preprocessing& how = {}) {
    return message_of<InputError>([&] { AugmentedDataset(images(1), options, how, 0); });
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(says(rejection({.height_shift = 1}), {"height shift is 1", "[0, 1)"}));
  EXPECT_TRUE(says(rejection({.width_shift = -.1}), {"width shift is -0.1"}));
  EXPECT_TRUE(says(rejection({.width_shift = nan}), {"nan"}));
  EXPECT_TRUE(says(rejection({.zoom_low = 0}), {"lower zoom is 0"}));
  EXPECT_TRUE(says(rejection({.zoom_low = 1.2, .zoom_high = 1.1}), {"upper zoom is 1.1", "1.2"}));
  EXPECT_TRUE(says(rejection({}, {{0, 0}, {1}}), {"2 numbers of mean"}));
  const auto flat = std::make_shared<RandomDataset>(SampleLayout{{4}, 2, {}}, 5, 0);
  EXPECT_TRUE(
      says(message_of<InputError>([&] { AugmentedDataset(flat, {}, {}, 0); }), {"1 dimensions"}));
}

}  // namespace
}  // namespace kolo::testing
