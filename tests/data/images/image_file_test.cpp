#include <gmock/gmock.h>

#include "data/images/image_files.h"
#include "kolo/base/error.h"
#include "kolo/data/image.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo {
namespace {

using testing::bytes_of;
using testing::message_of;

std::string rejection(std::string_view file, const ImageLimits& limits = {}) {
  return message_of<InputError>([&] { (void)decode_image(bytes_of(file), "a/b", limits); });
}

TEST(ImageFormat, IsToldByContentAndByName) {
  EXPECT_EQ(image_format_of_content(bytes_of("\xff\xd8\xff\xe0")), ImageFormat::jpeg);
  EXPECT_EQ(image_format_of_content(bytes_of("GIF89a")), std::nullopt);
  EXPECT_EQ(image_format_of_content({}), std::nullopt);
  EXPECT_EQ(image_format_of_name("a/b.JPEG"), ImageFormat::jpeg);
  EXPECT_EQ(image_format_of_name("b.x.Jpg"), ImageFormat::jpeg);
  EXPECT_EQ(image_format_of_name("b.PNG"), ImageFormat::png);
  EXPECT_EQ(image_format_of_name("jpg"), std::nullopt);
  EXPECT_EQ(image_format_of_name("b.txt"), std::nullopt);
}

TEST(Decoder, RejectsWhatIsNoImage) {
  EXPECT_TRUE(says(rejection(""), {"a/b is no image", "empty"}));
  EXPECT_TRUE(says(rejection("GIF89a"), {"a GIF image", "expected JPEG or PNG"}));
}

TEST(Decoder, ReadsRegularFilesWithinTheLimit) {
  const testing::TemporaryFolder folder;
  std::vector<std::byte> bytes;
  const auto reason = [&](const std::filesystem::path& path, const ImageLimits& limits = {}) {
    return message_of<InputError>([&] { read_image_file(path, bytes, limits); });
  };
  read_image_file(folder.write("a", "12345"), bytes);
  EXPECT_EQ(testing::text_of(bytes), "12345");
  EXPECT_TRUE(says(reason(folder / "a", {.most_file_bytes = 4}), {"5 bytes", "at most 4"}));
  EXPECT_TRUE(says(reason(folder.write("b", "")), {"/b", "empty"}));
  EXPECT_TRUE(says(reason(folder / "none"), {"No such file"}));
  EXPECT_TRUE(says(reason(folder.path()), {"a folder"}));
}

}  // namespace
}  // namespace kolo
