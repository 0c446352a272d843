#include <gmock/gmock.h>

#include "data/images/image_files.h"
#include "kolo/base/error.h"
#include "kolo/data/image.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace kolo {
namespace {

using ::testing::AllOf;
using testing::bytes_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::ppm_file;
using Pixels = std::vector<std::uint8_t>;

Pixels pixels_of(std::string_view file) {
  return decode_image(bytes_of(file), "test").pixels;
}

std::string rejection(std::string_view file, const ImageLimits& limits = {}) {
  return message_of<InputError>([&] { (void)decode_image(bytes_of(file), "a/b", limits); });
}

std::string little_endian(std::int64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i, number >>= 8) text += static_cast<char>(number & 255);
  return text;
}

std::string bmp_file(std::int64_t width, std::int64_t height, int bits, std::string_view pixels,
                     std::string_view palette = {}, int compression = 0) {
  const auto colours = static_cast<std::int64_t>(palette.size() / 4);
  return "BM" + little_endian(0, 8) + little_endian(54 + 4 * colours, 4) + little_endian(40, 4) +
         little_endian(width, 4) + little_endian(height, 4) + little_endian(1, 2) +
         little_endian(bits, 2) + little_endian(compression, 4) + little_endian(0, 12) +
         little_endian(colours, 4) + little_endian(0, 4) + std::string(palette) +
         std::string(pixels);
}

TEST(Bmp, ReadsRowsFromBothEnds) {
  // Rows of 3 pixels are 9 bytes and 3 of padding; colours are blue, green, red.
  const std::string_view rows("abcdefghi...ABCDEFGHI...");
  EXPECT_THAT(pixels_of(bmp_file(3, 2, 24, rows)),
              ElementsAre('C', 'B', 'A', 'F', 'E', 'D', 'I', 'H', 'G', 'c', 'b', 'a', 'f', 'e', 'd',
                          'i', 'h', 'g'));
  EXPECT_THAT(pixels_of(bmp_file(1, -2, 24, "abc.ABC.")),
              ElementsAre('c', 'b', 'a', 'C', 'B', 'A'));
  EXPECT_THAT(pixels_of(bmp_file(1, 1, 32, "abcX")), ElementsAre('c', 'b', 'a'));
  EXPECT_THAT(pixels_of(bmp_file(2, 1, 8, {"\1\0..", 4}, "abc.ABC.")),
              ElementsAre('C', 'B', 'A', 'c', 'b', 'a'));
}

TEST(Bmp, RejectsWhatItCannotRead) {
  const std::string_view rows("abc.");
  const auto file = bmp_file(1, 1, 24, rows);
  for (std::size_t size = 2; size < file.size(); ++size) {
    EXPECT_THAT(rejection(file.substr(0, size)), AllOf(HasSubstr("(BMP)"), HasSubstr("truncated")));
  }
  EXPECT_THAT(rejection(bmp_file(1, 1, 16, rows)), HasSubstr("16 bits a pixel"));
  EXPECT_THAT(rejection(bmp_file(1, 1, 8, rows, {}, 1)), HasSubstr("compression 1"));
  EXPECT_THAT(rejection(bmp_file(1, 1, 8, rows, "abc.")), HasSubstr("colour 97 of a palette of 1"));
  EXPECT_THAT(rejection(bmp_file(0, 1, 24, rows)), HasSubstr("0 wide"));
  EXPECT_THAT(rejection(bmp_file(-1, 1, 24, rows)), HasSubstr("-1 wide"));
  EXPECT_THAT(rejection(bmp_file(1, 0x80000000, 24, rows)), HasSubstr("2147483648 pixels high"));
  EXPECT_THAT(rejection(bmp_file(60000, 60000, 24, rows)), HasSubstr("at most 67108864"));
}

TEST(Ppm, ReadsColourAndGreyOfOneAndTwoBytes) {
  EXPECT_THAT(pixels_of("P6 2 1 255\nabcdef"), ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
  EXPECT_THAT(pixels_of("P6\n# made by hand\n1 # wide\n1\n255\n###"), ElementsAre('#', '#', '#'));
  EXPECT_THAT(pixels_of("P5 2 1 255 ab"), ElementsAre('a', 'a', 'a', 'b', 'b', 'b'));
  EXPECT_THAT(pixels_of({"P5 2 1 3 \1\3", 11}), ElementsAre(85, 85, 85, 255, 255, 255));
  EXPECT_THAT(pixels_of({"P5 1 1 65535 \x80\0", 15}), ElementsAre(128, 128, 128));
}

TEST(Ppm, RejectsWhatItCannotRead) {
  EXPECT_THAT(rejection("P6 2 1 255\nabcde"), AllOf(HasSubstr("5 bytes"), HasSubstr("expected 6")));
  EXPECT_THAT(rejection("P6"), HasSubstr("expected the width"));
  EXPECT_THAT(rejection("P6 1"), HasSubstr("expected the height"));
  EXPECT_THAT(rejection("P6 1 1 "), HasSubstr("expected the largest value"));
  EXPECT_THAT(rejection("P6 1 1 0 abc"), HasSubstr("largest value is 0"));
  EXPECT_THAT(rejection("P6 1 1 65536 abc"), HasSubstr("largest value is 65536"));
  EXPECT_THAT(rejection("P6 1 1 255"), HasSubstr("white space"));
  EXPECT_THAT(rejection("P6 -1 1 255 abc"), HasSubstr("expected the width"));
  EXPECT_THAT(rejection("P5 1 1 9 a"), AllOf(HasSubstr("97"), HasSubstr("at most 9")));
  EXPECT_THAT(rejection("P6 99999999999999999999 1 255 abc"), HasSubstr("wide"));
  EXPECT_THAT(rejection("P6 60000 60000 255 abc"), HasSubstr("at most 67108864"));
}

TEST(ImageFormat, IsToldByContentAndByName) {
  EXPECT_EQ(image_format_of_content(bytes_of("\xff\xd8\xff\xe0")), ImageFormat::jpeg);
  EXPECT_EQ(image_format_of_content(bytes_of("GIF89a")), std::nullopt);
  EXPECT_EQ(image_format_of_content({}), std::nullopt);
  EXPECT_EQ(image_format_of_name("a/b.JPEG"), ImageFormat::jpeg);
  EXPECT_EQ(image_format_of_name("b.x.Jpg"), ImageFormat::jpeg);
  EXPECT_EQ(image_format_of_name("b.PNG"), ImageFormat::png);
  EXPECT_EQ(image_format_of_name("b.bmp"), ImageFormat::bmp);
  EXPECT_EQ(image_format_of_name("b.pgm"), ImageFormat::ppm);
  EXPECT_EQ(image_format_of_name("jpg"), std::nullopt);
  EXPECT_EQ(image_format_of_name("b.txt"), std::nullopt);
}

TEST(Decoder, RejectsWhatIsNoImage) {
  EXPECT_THAT(rejection(""), AllOf(HasSubstr("a/b is no image"), HasSubstr("empty")));
  EXPECT_THAT(rejection("GIF89a"),
              AllOf(HasSubstr("a GIF image"), HasSubstr("expected JPEG, PNG")));
}

TEST(Decoder, ReadsRegularFilesWithinTheLimit) {
  const testing::TemporaryFolder folder;
  std::vector<std::byte> bytes;
  const auto reason = [&](const std::filesystem::path& path, const ImageLimits& limits = {}) {
    return message_of<InputError>([&] { read_image_file(path, bytes, limits); });
  };
  read_image_file(folder.write("a", "12345"), bytes);
  EXPECT_EQ(testing::text_of(bytes), "12345");
  EXPECT_THAT(reason(folder / "a", {.most_file_bytes = 4}),
              AllOf(HasSubstr("5 bytes"), HasSubstr("at most 4")));
  EXPECT_THAT(reason(folder.write("b", "")), AllOf(HasSubstr("/b"), HasSubstr("empty")));
  EXPECT_THAT(reason(folder / "none"), HasSubstr("No such file"));
  EXPECT_THAT(reason(folder.path()), HasSubstr("a folder"));
}

}  // namespace
}  // namespace kolo
