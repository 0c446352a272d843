#include "kolo/tools/generators.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/data/image.h"
#include "support/errors.h"
#include "support/idx_files.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;

std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files[fs::relative(entry.path(), folder)] = read_text_file(entry.path());
  }
  return files;
}

// Components of a JPEG file, from its frame header: marker, two bytes of length, precision, height,
// width, components.
int components(const std::string& file) {
  const auto frame = file.find("\xff\xc0");
  return frame == std::string::npos ? 0 : file.at(frame + 9);
}

class PhotographFolder : public ::testing::Test {
 protected:
  PhotographFolder() { testing::write_small_mnist(source.path(), 200, 40); }

  [[nodiscard]] PhotographFolderOptions options(std::int64_t per_class, std::int64_t least_side,
                                                std::int64_t most_side) const {
    return {.stand_in = {.source = source.path(), .per_class = per_class, .plain = true},
            .least_side = least_side,
            .most_side = most_side};
  }
  std::map<std::string, std::string> make(const std::string& name, int threads,
                                          const PhotographFolderOptions& options) const {
    const auto counts = write_photograph_folder(folder / name, options, {.threads = threads});
    auto files = files_in(folder / name);
    EXPECT_EQ(counts[0] + counts[1], std::ssize(files));
    return files;
  }

  TemporaryFolder source, folder;
};

TEST_F(PhotographFolder, IsLaidOutAsImageNetAndTheSameForAnyNumberOfThreads) {
  auto some = options(10, 32, 64);
  const auto files = make("one", 1, some);
  EXPECT_EQ(files.size(), 120U);
  EXPECT_TRUE(files.contains("train/0_t_shirt_top/0_t_shirt_top_00009.jpg"));
  EXPECT_TRUE(files.contains("train/9_ankle_boot/9_ankle_boot_00000.jpg"));
  EXPECT_TRUE(files.contains("valid/1_trouser/1_trouser_00001.jpg"));
  EXPECT_EQ(make("four", 4, some), files);
  some.stand_in.seed = 1;
  EXPECT_NE(make("other", 2, some), files);
}

// Brightness of the four quarters, less their mean.
template <typename Value>
std::array<double, 4> quarters(std::int64_t height, std::int64_t width, Value value) {
  std::array<double, 4> sums{}, counts{};
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const auto quarter = static_cast<std::size_t>((2 * y >= height ? 2 : 0) + (2 * x >= width));
      sums.at(quarter) += value(y, x);
      counts.at(quarter) += 1;
    }
  }
  double mean = 0;
  for (std::size_t i = 0; i < 4; ++i) mean += (sums.at(i) /= counts.at(i)) / 4;
  for (auto& sum : sums) sum -= mean;
  return sums;
}

TEST_F(PhotographFolder, HoldsTheStandInsImagesInManySizesSomeGrey) {
  const auto sizes = options(20, 40, 90);
  const auto files = make("made", 2, sizes);
  std::set<std::int64_t> heights, widths;
  int grey = 0;
  for (const auto& [name, content] : files) {
    const auto image = decode_image(std::as_bytes(std::span(content)), name);
    heights.insert(image.height);
    widths.insert(image.width);
    grey += components(content) == 1 ? 1 : 0;
  }
  EXPECT_THAT(grey, AllOf(::testing::Gt(0), ::testing::Lt(40)));
  EXPECT_GT(heights.size(), 5U);
  EXPECT_GT(widths.size(), 5U);
  EXPECT_GE(std::min(*heights.begin(), *widths.begin()), 40);
  EXPECT_LE(std::max(*heights.rbegin(), *widths.rbegin()), 90);

  // The pictures are still there: bright where the small ones are.
  const StandInImages images(sizes.stand_in, Split::validation);
  double product = 0, painted_squares = 0, written_squares = 0;
  for (std::int64_t i = 0; i < images.size() && images.label(i) == 0; ++i) {
    const auto name = "valid/0_t_shirt_top/0_t_shirt_top_0000" + std::to_string(i) + ".jpg";
    const auto& content = files.at(name);
    const auto image = decode_image(std::as_bytes(std::span(content)), name);
    std::vector<std::uint8_t> pixels(cifar10_pixel_bytes);
    images.paint(i, pixels);
    const auto painted = quarters(32, 32, [&](std::int64_t y, std::int64_t x) {
      const auto at = static_cast<std::size_t>(32 * y + x);
      return .299 * pixels[at] + .587 * pixels[1024 + at] + .114 * pixels[2048 + at];
    });
    const auto written = quarters(image.height, image.width, [&](std::int64_t y, std::int64_t x) {
      const auto* const pixel = &image.pixels[static_cast<std::size_t>(3 * (image.width * y + x))];
      return .299 * pixel[0] + .587 * pixel[1] + .114 * pixel[2];
    });
    for (std::size_t part = 0; part < 4; ++part) {
      product += painted.at(part) * written.at(part);
      painted_squares += painted.at(part) * painted.at(part);
      written_squares += written.at(part) * written.at(part);
    }
  }
  EXPECT_GT(product / std::sqrt(painted_squares * written_squares), .6);
}

// The first of all is white all over, unlike its class, whose other pictures are noise.
TEST_F(PhotographFolder, ShowsTheClearestOfEachClassFirst) {
  auto images = read_text_file(source / "train-images-idx3-ubyte");
  constexpr std::size_t header = 16, garment = 784;
  images.replace(header, garment, garment, '\xff');
  source.write("train-images-idx3-ubyte", images);
  const StandInImages plain({.source = source.path(), .per_class = 5, .plain = true}, Split::train);
  ASSERT_EQ(plain.size(), 200);
  std::vector<double> noise;  // in the middle of class 0's pictures
  for (std::int64_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(plain.label(i), i / 20);
    if (i >= 20) continue;
    std::vector<std::uint8_t> pixels(cifar10_pixel_bytes);
    plain.paint(i, pixels);
    double sum = 0, squares = 0;
    for (std::size_t y = 12; y < 20; ++y) {
      for (std::size_t x = 12; x < 20; ++x) {
        const double value = pixels[32 * y + x];
        sum += value / 64;
        squares += value * value / 64;
      }
    }
    noise.push_back(squares - sum * sum);
  }
  EXPECT_EQ(std::ranges::min_element(noise), noise.end() - 1);
}

TEST_F(PhotographFolder, RefusesWhatCannotBe) {
  const auto rejection = [&](const PhotographFolderOptions& given) {
    return message_of<InputError>([&] { (void)make("made", 1, given); });
  };
  EXPECT_TRUE(says(rejection(options(0, 32, 64)), {"at least 1"}));
  EXPECT_TRUE(says(rejection(options(21, 32, 64)), {"21 images of class 0 asked for", "has 20"}));
  EXPECT_TRUE(says(rejection(options(1, 100, 99)), {"100 to 99"}));
  EXPECT_TRUE(says(rejection(options(1, 1, 64)), {"16 to 8192"}));
  testing::write_small_mnist(source.path(), 200, 30);
  EXPECT_TRUE(says(rejection(options(20, 32, 64)),
                   {"4 images of class 0_t_shirt_top asked for, there are 3"}));
  EXPECT_TRUE(fs::is_empty(folder.path()));
  folder.write("made/thesis", "precious");
  EXPECT_TRUE(says(rejection(options(1, 32, 64)), {"not empty"}));
}

}  // namespace
}  // namespace kolo::testing
