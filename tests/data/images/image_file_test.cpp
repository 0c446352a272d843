#include "data/images/image_files.h"
#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using Pixels = std::vector<std::uint8_t>;

Pixels pixels_of(std::string_view file) {
  return decode_image(bytes_of(file), "test").pixels;
}

std::string rejection(std::string_view file, const ImageLimits& limits = {}) {
  return message_of<InputError>([&] { (void)decode_image(bytes_of(file), "a/b.png", limits); });
}

TEST(ImageFormat, IsToldByContentAndByName) {
  EXPECT_EQ(image_format_of_content(bytes_of("\xff\xd8\xff\xe0")), ImageFormat::jpeg);
  EXPECT_EQ(image_format_of_content(bytes_of("GIF89a")), std::nullopt);
  EXPECT_EQ(image_format_of_content({}), std::nullopt);
  for (const auto* const name : {"a/b.JPEG", "b.x.Jpg", "b.PNG"})
    EXPECT_TRUE(has_image_name(name)) << name;
  for (const auto* const name : {"jpg", "b.txt"}) EXPECT_FALSE(has_image_name(name)) << name;
}

TEST(Decoder, RejectsWhatIsNoImage) {
  EXPECT_TRUE(says(rejection(""), {"a/b.png is no image", "empty"}));
  EXPECT_TRUE(says(rejection("GIF89a"), {"a GIF image", "expected JPEG or PNG"}));
}

TEST(Decoder, ReadsRegularFilesWithinTheLimit) {
  const TemporaryFolder folder;
  std::vector<std::byte> bytes;
  const auto reason = [&](const std::filesystem::path& path, const ImageLimits& limits = {}) {
    return message_of<InputError>([&] { read_image_file(path, bytes, limits); });
  };
  read_image_file(folder.write("a", "12345"), bytes);
  EXPECT_EQ(testing::text_of(bytes), "12345");
  EXPECT_TRUE(says(reason(folder / "a", {.most_file_bytes = 4}), {"5 bytes", "at most 4"}));
  EXPECT_TRUE(says(reason(folder.write("b", "")), {"/b", "empty"}));
  EXPECT_TRUE(says(reason(folder / "none"), {"none does not exist"}));
  EXPECT_TRUE(says(reason(folder.path()), {"a folder"}));
}

TEST(Png, ConvertsEveryKindOfPixelToRgb) {
  const auto rows = [](std::string_view text) { return text; };
  EXPECT_THAT(pixels_of(png_file({2, 1, 8, 2}, rows({"\0\1\2\3\4\5\6", 7}))),
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(pixels_of(png_file({2, 1, 8, 6}, rows({"\0\1\2\3\0\4\5\6\7", 9}))),
              ElementsAre(1, 2, 3, 4, 5, 6));  // transparency is dropped
  EXPECT_THAT(pixels_of(png_file({2, 1, 8, 0}, rows({"\0\7\x09", 3}))),
              ElementsAre(7, 7, 7, 9, 9, 9));
  EXPECT_THAT(pixels_of(png_file({1, 1, 8, 4}, rows({"\0\7\0", 3}))), ElementsAre(7, 7, 7));
  EXPECT_THAT(pixels_of(png_file({3, 1, 1, 0}, rows({"\0\xa0", 2}))),
              ElementsAre(255, 255, 255, 0, 0, 0, 255, 255, 255));
  EXPECT_THAT(pixels_of(png_file({2, 1, 4, 0}, rows({"\0\x1f", 2}))),
              ElementsAre(17, 17, 17, 255, 255, 255));
  EXPECT_THAT(pixels_of(png_file({1, 1, 16, 2}, rows({"\0\x80\x00\xff\xff\x01\x02", 7}))),
              ElementsAre(128, 255, 1));
  EXPECT_THAT(pixels_of(png_file({2, 1, 8, 3}, rows({"\0\1\0", 3}), png_chunk("PLTE", "abcdef"))),
              ElementsAre('d', 'e', 'f', 'a', 'b', 'c'));
  // A palette with transparent colours.
  EXPECT_THAT(pixels_of(png_file({1, 1, 8, 3}, rows({"\0\0", 2}),
                                 png_chunk("PLTE", "abc") + png_chunk("tRNS", {"\0", 1}))),
              ElementsAre('a', 'b', 'c'));
}

TEST(Png, ReadsInterlacedFiles) {
  // 2 x 2 pixels come in three passes: the first, its right neighbour, the row below.
  const std::string_view rows("\0\1\0\2\0\3\4", 7);
  EXPECT_THAT(pixels_of(png_file({2, 2, 8, 0, true}, rows)),
              ElementsAre(1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4));
  EXPECT_TRUE(says(rejection(png_file({2, 2, 8, 0, true}, rows), {.most_memory = 15}),
                   {"interlaced", "16 bytes"}));
}

TEST(Png, RejectsTruncatedFiles) {
  const auto file = png_file({40, 40, 8, 2}, [] {
    std::string rows;
    const auto noise = testing::noise_image(40, 40).pixels;
    for (std::size_t y = 0; y < 40; ++y) {
      rows += '\0' + std::string(noise.begin() + static_cast<std::ptrdiff_t>(120 * y),
                                 noise.begin() + static_cast<std::ptrdiff_t>(120 * (y + 1)));
    }
    return rows;
  }());
  EXPECT_EQ(pixels_of(file), testing::noise_image(40, 40).pixels);
  for (std::size_t size = 8; size < file.size(); size += 1 + size / 9) {
    EXPECT_TRUE(says(rejection(std::string_view(file).substr(0, size)),
                     {"cannot decode a/b.png (PNG)", "truncated"}));
  }
  auto damaged = file;
  damaged[file.size() / 2] = static_cast<char>(damaged[file.size() / 2] ^ 16);
  EXPECT_TRUE(says(rejection(damaged), {"(PNG)"}));
}

TEST(Png, RejectsDamagedFiles) {
  const std::string_view row("\0\1\2\3", 4);
  EXPECT_TRUE(says(rejection(png_signature), {"truncated"}));
  EXPECT_TRUE(says(rejection(png_signature + png_chunk("IEND", {})), {"(PNG)"}));
  EXPECT_TRUE(says(rejection(png_file({1, 1, 9, 2}, row)), {"(PNG)"}));               // 9 bits
  EXPECT_TRUE(says(rejection(png_file({1, 1, 8, 2}, row.substr(0, 3))), {"(PNG)"}));  // short
  EXPECT_TRUE(says(rejection(png_file({1, 1, 8, 3}, row)), {"(PNG)"}));               // no palette
  auto header = png_header({1, 1, 8, 2});
  header.back() = static_cast<char>(header.back() ^ 1);  // the checksum
  EXPECT_TRUE(
      says(rejection(png_signature + header + png_chunk("IDAT", zlib_bytes(row))), {"CRC"}));
}

TEST(Png, PassesOverWhatTouchesNoPixel) {
  const auto note = png_chunk("tEXt", {"author\0me", 9}) + png_chunk("gAMA", {"\0\0\1\0", 4}) +
                    png_chunk("zTXt", "no such compression") + png_chunk("huGe", "?");
  EXPECT_THAT(pixels_of(png_file({1, 1, 8, 0}, {"\0\7", 2}, note)), ElementsAre(7, 7, 7));
  // A text that says it has a gigabyte.
  auto file = png_file({1, 1, 8, 0}, {"\0\7", 2}, note);
  file[file.find("tEXt") - 4] = '\x40';
  EXPECT_TRUE(says(rejection(file), {"truncated"}));
}

TEST(Png, ChecksTheSizeBeforeItTakesMemory) {
  const PngKind absurd{2'000'000'000, 2'000'000'000, 8, 6, true};
  EXPECT_TRUE(says(rejection(png_file(absurd, "")), {"2000000000 pixels high", "1 to 65500"}));
  EXPECT_TRUE(says(rejection(png_file({65000, 65000, 8, 2}, "")), {"at most 67108864"}));
  EXPECT_TRUE(says(rejection(png_file({0, 1, 8, 2}, "")), {"(PNG)"}));
}

}  // namespace
}  // namespace kolo::testing
