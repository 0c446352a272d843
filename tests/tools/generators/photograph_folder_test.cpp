#include "kolo/tools/stand_ins.h"

#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/data/image.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::message_of;
using testing::TemporaryFolder;

const std::vector<std::string> names = {"T-shirt/top", "Trouser", "Ankle boot"};

// Image i has label i % 3; its left half is dark and its right half bright.
SmallImages small_images(std::int64_t size) {
  return {size, [](std::int64_t index) { return index % 3; },
          [](std::int64_t, std::span<std::uint8_t> pixels) {
            for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = i % 32 < 16 ? 60 : 190;
          }};
}

std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files[fs::relative(entry.path(), folder)] = read_text_file(entry.path());
  }
  return files;
}

// Of a JPEG file, as its frame header says: marker, two bytes of length, precision, height, width.
int components(const std::string& file) {
  const auto frame = file.find("\xff\xc0");
  return frame == std::string::npos ? 0 : file.at(frame + 9);
}

std::map<std::string, std::string> make(const fs::path& folder, int threads,
                                        PhotographFolderOptions options) {
  const auto counts = write_photograph_folder(folder, small_images(60), small_images(12), names,
                                              options, {.threads = threads});
  auto files = files_in(folder);
  EXPECT_EQ(counts[0] + counts[1], std::ssize(files));
  return files;
}

TEST(PhotographFolder, IsLaidOutAsImageNet) {
  const TemporaryFolder folder;
  const auto files = make(folder / "made", 2, {.per_class = 10, .least_side = 32, .most_side = 64});
  EXPECT_EQ(files.size(), 36U);
  EXPECT_TRUE(files.contains("train/0_t_shirt_top/0_t_shirt_top_00009.jpg"));
  EXPECT_TRUE(files.contains("train/2_ankle_boot/2_ankle_boot_00000.jpg"));
  EXPECT_TRUE(files.contains("valid/1_trouser/1_trouser_00001.jpg"));
}

TEST(PhotographFolder, HoldsImagesOfManySizesSomeGrey) {
  const TemporaryFolder folder;
  const auto files = make(folder / "made", 2, {.per_class = 20, .least_side = 40, .most_side = 90});
  std::set<std::int64_t> heights, widths;
  int grey = 0;
  for (const auto& [name, content] : files) {
    const auto image = decode_image(std::as_bytes(std::span(content)), name);
    heights.insert(image.height);
    widths.insert(image.width);
    const auto pixel = [&](std::int64_t x) {
      return &image.pixels[static_cast<std::size_t>((image.height / 2 * image.width + x) * 3)];
    };
    EXPECT_LT(pixel(2)[1] + 40, pixel(image.width - 3)[1]) << "the picture is still there";
    grey += components(content) == 1 ? 1 : 0;
  }
  EXPECT_THAT(grey, AllOf(::testing::Gt(0), ::testing::Lt(20)));
  EXPECT_GT(heights.size(), 5U);
  EXPECT_GT(widths.size(), 5U);
  EXPECT_GE(std::min(*heights.begin(), *widths.begin()), 40);
  EXPECT_LE(std::max(*heights.rbegin(), *widths.rbegin()), 90);
}

TEST(PhotographFolder, IsTheSameForAnyNumberOfThreads) {
  const TemporaryFolder folder;
  const PhotographFolderOptions options{.per_class = 5, .least_side = 32, .most_side = 64};
  const auto files = make(folder / "one", 1, options);
  EXPECT_EQ(make(folder / "four", 4, options), files);
  auto other = options;
  other.seed = 1;
  EXPECT_NE(make(folder / "other", 2, other), files);
}

TEST(PhotographFolder, RefusesWhatCannotBe) {
  const TemporaryFolder folder;
  const auto rejection = [&](PhotographFolderOptions options) {
    return message_of<InputError>([&] { (void)make(folder / "made", 1, options); });
  };
  EXPECT_TRUE(says(rejection({.per_class = 0}), {"at least 1"}));
  EXPECT_TRUE(
      says(rejection({.per_class = 21}), {"21 images of class 0_t_shirt_top", "there are 20"}));
  EXPECT_TRUE(says(rejection({.least_side = 100, .most_side = 99}), {"100 to 99"}));
  EXPECT_TRUE(says(rejection({.least_side = 1}), {"16 to 8192"}));
  EXPECT_TRUE(fs::is_empty(folder.path()));
  folder.write("made/thesis", "precious");
  EXPECT_TRUE(says(rejection({.per_class = 1}), {"not empty"}));
}

}  // namespace
}  // namespace kolo
