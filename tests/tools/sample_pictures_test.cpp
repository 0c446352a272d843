// Images and fields with what a network makes of them, as PNG.
#include "kolo/tools/sample_pictures.h"

#include <limits>

#include <png.h>

#include "kolo/report/run_record.h"
#include "support/matchers.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

Panel panel(Panel::Scale scale, std::int64_t rows, std::int64_t columns) {
  const auto planes = scale == Panel::Scale::colour ? 3 : 1;
  Panel made{.scale = scale, .rows = rows, .columns = columns};
  for (std::int64_t i = 0; i < rows * columns * planes; ++i)
    made.values.push_back(static_cast<float>(i % 7) / 6.f);
  return made;
}

SamplePicture picture_of(std::vector<Panel> panels) {
  return {.caption = "dog, is 'cat' {now} \u4e2d 100 %",
          .panels_per_row = 2,
          .panels = std::move(panels)};
}

// A PNG as libpng reads it.
struct Pixels {
  explicit Pixels(const std::string& png) {
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    EXPECT_NE(png_image_begin_read_from_memory(&image, png.data(), png.size()), 0);
    image.format = PNG_FORMAT_RGB;
    width = image.width;
    height = image.height;
    bytes.resize(3 * width * height);
    EXPECT_NE(png_image_finish_read(&image, nullptr, bytes.data(), 0, nullptr), 0) << image.message;
    EXPECT_EQ(image.warning_or_error, 0U) << image.message << ": kolo's chunks are whole";
  }
  [[nodiscard]] std::vector<int> at(std::size_t y, std::size_t x) const {
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(3 * (y * width + x));
    return {begin, begin + 3};
  }
  std::size_t width = 0, height = 0;
  std::vector<png_byte> bytes;
};

TEST(SamplePictures, PanelsStandSideBySideWithGapsBetween) {
  auto grey = panel(Panel::Scale::grey, 2, 2);
  grey.values = {0, 1, .5f, 2};
  const Pixels pixels(draw_picture(picture_of({grey, Panel{}, panel(Panel::Scale::field, 2, 2)})));
  EXPECT_EQ(pixels.width, 2 * 192 + 6U);
  EXPECT_EQ(pixels.height, 2 * 192 + 6U);
  EXPECT_THAT(pixels.at(0, 0), ElementsAre(0, 0, 0));
  EXPECT_THAT(pixels.at(95, 96), ElementsAre(255, 255, 255));
  EXPECT_THAT(pixels.at(96, 95), ElementsAre(128, 128, 128));
  EXPECT_THAT(pixels.at(191, 191), ElementsAre(255, 255, 255)) << "beyond the scale";
  EXPECT_THAT(pixels.at(0, 300), ElementsAre(255, 255, 255)) << "a gap";
  EXPECT_THAT(pixels.at(198, 0), ElementsAre(0, 0, 0)) << "the least of a field";
}

TEST(SamplePictures, ScalesHaveTheirColours) {
  const auto first_of = [](Panel::Scale scale, std::vector<float> values) {
    auto one = panel(scale, 1, 1);
    one.values = std::move(values);
    return Pixels(draw_picture(picture_of({one}))).at(0, 0);
  };
  EXPECT_THAT(first_of(Panel::Scale::colour, {1, .2f, 0}), ElementsAre(255, 51, 0));
  EXPECT_THAT(first_of(Panel::Scale::field, {1}), ElementsAre(255, 255, 255));
  EXPECT_THAT(first_of(Panel::Scale::difference, {.5f}), ElementsAre(0xf7, 0xf7, 0xf7));
  EXPECT_THAT(first_of(Panel::Scale::difference, {1}), ElementsAre(0xb2, 0x18, 0x2b));
}

TEST(SamplePictures, MistakesHaveARedFrame) {
  auto picture = picture_of({panel(Panel::Scale::grey, 28, 28)});
  picture.is_mistake = true;
  const Pixels pixels(draw_picture(picture));
  EXPECT_EQ(pixels.width, 7 * 28 + 8U);
  EXPECT_THAT(pixels.at(0, 0), ElementsAre(0xc6, 0x28, 0x28));
  EXPECT_THAT(pixels.at(4, 4), ElementsAre(0, 0, 0));
}

TEST(SamplePictures, LargePanelsAreMadeSmall) {
  auto large = panel(Panel::Scale::grey, 300, 200);
  large.values.assign(large.values.size(), .2f);
  const Pixels pixels(draw_picture(picture_of({large})));
  EXPECT_EQ(pixels.height, 200U) << "100 cells of three values each";
  EXPECT_THAT(pixels.at(199, 133), ElementsAre(51, 51, 51)) << "the last column has fewer values";
}

TEST(SamplePictures, TheFileIsMarkedAndHasItsCaption) {
  const TemporaryFolder folder;
  const auto picture = picture_of({panel(Panel::Scale::colour, 8, 8)});
  const auto png = draw_picture(picture);
  EXPECT_TRUE(is_drawing(folder.write("a.png", png)));
  EXPECT_EQ(png_caption(png), picture.caption);
  EXPECT_EQ(png_caption("another file"), "");
}

// Panels of a single value, or without a number, have a shade too.
TEST(SamplePictures, ConstantsAndValuesThatAreNotFiniteAreDrawn) {
  auto constant = panel(Panel::Scale::grey, 4, 4);
  constant.values.assign(16, 3.f);
  constant.low = constant.high = 3;
  auto endless = panel(Panel::Scale::grey, 4, 4);
  endless.values.assign(16, std::numeric_limits<float>::quiet_NaN());
  const Pixels pixels(draw_picture(picture_of({constant, endless})));
  EXPECT_THAT(pixels.at(0, 0), ElementsAre(128, 128, 128));
  EXPECT_THAT(pixels.at(0, 198), ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace kolo::testing
