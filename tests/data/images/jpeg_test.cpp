#include "data/images/image_files.h"
#include "data/images/jpeg_files.h"
#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using Pixels = std::vector<std::uint8_t>;

// One colour, 10 x 12, as decoded.
Pixels decoded_colour(const Pixels& colour, const JpegKind& kind) {
  Pixels pixels;
  for (int i = 0; i < 120; ++i) pixels.insert(pixels.end(), colour.begin(), colour.end());
  const auto file = jpeg_file(10, 12, pixels, kind);
  const auto image = decode_image(bytes_of(file), "test");
  EXPECT_EQ(image.height, 10);
  EXPECT_EQ(image.width, 12);
  EXPECT_EQ(image.pixels.size(), 360U);
  return {image.pixels.begin(), image.pixels.begin() + 3};
}

void expect_near(const Pixels& colour, const Pixels& expected) {
  ASSERT_EQ(colour.size(), expected.size());
  for (std::size_t c = 0; c < colour.size(); ++c) EXPECT_NEAR(colour[c], expected[c], 2);
}

std::string rejection(std::string_view file, const ImageLimits& limits = {}) {
  return message_of<InputError>([&] { (void)decode_image(bytes_of(file), "a/b.jpg", limits); });
}

TEST(Jpeg, ConvertsEveryKindOfColourToRgb) {
  for (const bool progressive : {false, true}) {
    expect_near(decoded_colour({200, 30, 90}, {JCS_RGB, JCS_YCbCr, progressive}), {200, 30, 90});
    expect_near(decoded_colour({200, 30, 90}, {JCS_RGB, JCS_RGB, progressive}), {200, 30, 90});
    expect_near(decoded_colour({77}, {JCS_GRAYSCALE, JCS_GRAYSCALE, progressive}), {77, 77, 77});
    // Adobe's marker makes 255 stand for no ink: light is the product of what is let through.
    for (const auto inside : {JCS_CMYK, JCS_YCCK}) {
      expect_near(decoded_colour({255, 128, 0, 255}, {JCS_CMYK, inside, progressive}),
                  {255, 128, 0});
      expect_near(decoded_colour({255, 128, 64, 128}, {JCS_CMYK, inside, progressive}),
                  {128, 64, 32});
    }
    expect_near(decoded_colour({0, 127, 191, 127}, {JCS_CMYK, JCS_CMYK, progressive, false}),
                {128, 64, 32});
  }
}

TEST(Jpeg, GivesBackWhatWasWritten) {
  const auto image = smooth_image(53, 75);
  const auto decoded = decode_image(encode_jpeg(image, 95), "test");
  ASSERT_EQ(decoded.height, 53);
  ASSERT_EQ(decoded.width, 75);
  ASSERT_EQ(decoded.pixels.size(), image.pixels.size());
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    ASSERT_NEAR(decoded.pixels[i], image.pixels[i], 12);
  }
}

TEST(Jpeg, RejectsTruncatedFiles) {
  for (const bool progressive : {false, true}) {
    const auto file =
        jpeg_file(40, 40, noise_image(40, 40).pixels, {JCS_RGB, JCS_YCbCr, progressive});
    for (std::size_t size = 3; size + 2 < file.size(); size += 1 + size / 7) {
      EXPECT_TRUE(
          says(rejection(std::string_view(file).substr(0, size)), {"cannot decode a/b.jpg (JPEG)"}))
          << size << " of " << file.size();
    }
  }
}

TEST(Jpeg, RejectsDamagedFiles) {
  const auto file = jpeg_file(40, 40, noise_image(40, 40).pixels, {});
  // Codes that no table has; a marker in the midst of the pixels.
  auto damaged = file;
  damaged.replace(file.size() / 2, 60, std::string("\xff\xd9", 2) + std::string(58, 'x'));
  EXPECT_TRUE(says(rejection(damaged), {"a/b.jpg (JPEG): "}));
  EXPECT_TRUE(says(rejection("\xff\xd8\xff\xd9"), {"JPEG"}));
  EXPECT_TRUE(says(rejection("\xff\xd8\xff"), {"JPEG"}));
}

TEST(Jpeg, ToleratesBytesThatTouchNoPixel) {
  const auto file = jpeg_file(8, 8, noise_image(8, 8).pixels, {});
  const auto plain = decode_image(bytes_of(file), "test");
  auto padded = file;
  padded.insert(2, "\xff\xe1\x01\x02" + std::string(256, '\1'));  // a camera's notes, of nonsense
  EXPECT_EQ(decode_image(bytes_of(padded + "behind the end"), "test").pixels, plain.pixels);
}

std::size_t offset_of_size(const std::string& file) {
  return file.find("\xff\xc0") + 5;  // start of frame: length, bits, height, width
}

TEST(Jpeg, ChecksTheSizeBeforeItTakesMemory) {
  auto file = jpeg_file(40, 40, noise_image(40, 40).pixels, {});
  EXPECT_TRUE(says(rejection(file, {.most_side = 39}), {"40", "1 to 39"}));
  EXPECT_TRUE(says(rejection(file, {.most_pixels = 1599}), {"at most 1599 together"}));
  file.replace(offset_of_size(file), 4, std::string("\xff\x00\xff\x00", 4));
  EXPECT_TRUE(says(rejection(file), {"65280 pixels high", "at most 67108864"}));
  file.replace(offset_of_size(file), 4, std::string("\x00\x28\x00\x00", 4));
  EXPECT_TRUE(says(rejection(file), {"JPEG"}));
}

TEST(Jpeg, BoundsTheMemoryOfProgressiveFiles) {
  const auto file =
      jpeg_file(600, 600, noise_image(600, 600).pixels, {JCS_RGB, JCS_YCbCr, true}, 50);
  EXPECT_TRUE(says(rejection(file, {.most_memory = 200'000}), {"JPEG"}));
  EXPECT_EQ(decode_image(bytes_of(file), "test").width, 600);
}

TEST(Jpeg, BoundsTheScansOfAFile) {
  const auto file = jpeg_file(16, 16, noise_image(16, 16).pixels, {JCS_RGB, JCS_YCbCr, true});
  // The last scan, from its marker to the end of the image, over and over.
  const auto last = file.rfind("\xff\xda");
  const auto scan = file.substr(last, file.size() - 2 - last);
  auto bomb = file.substr(0, file.size() - 2);
  for (int i = 0; i < 300; ++i) bomb += scan;
  EXPECT_THAT(rejection(bomb + "\xff\xd9"),
              AnyOf(HasSubstr("200 scans"), HasSubstr("progression")));
}

TEST(Jpeg, RefusesToWriteWhatIsTooLarge) {
  EXPECT_TRUE(says(message_of<Error>([&] {
                     (void)encode_jpeg({1, 70000, Pixels(210000)}, 90);
                   }),
                   {"65500"}));
}

}  // namespace
}  // namespace kolo::testing
