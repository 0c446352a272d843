#include "kolo/tools/generators.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "support/errors.h"
#include "support/idx_files.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;

using Pixels = std::vector<std::uint8_t>;

Pixels paint(const StandInImages& images, std::int64_t index) {
  Pixels pixels(cifar10_pixel_bytes);
  images.paint(index, pixels);
  return pixels;
}

std::vector<std::string> contents(const fs::path& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files.push_back(entry.path().filename().string() + ":" + read_text_file(entry.path()));
  }
  std::ranges::sort(files);
  return files;
}

class StandIn : public ::testing::Test {
 protected:
  StandIn() { write_small_mnist(source.path(), 100, 30); }

  // Ten classes of eight.
  [[nodiscard]] StandInOptions options(std::uint64_t seed = 1) const {
    return {.source = source.path(), .seed = seed, .per_class = 8};
  }

  TemporaryFolder source, folder;
};

TEST_F(StandIn, TakesTheFirstOfEachClassShuffledAndAllForValidationInOrder) {
  const StandInImages training(options(), Split::train);
  ASSERT_EQ(training.size(), 80);
  std::vector<int> counts(10), labels;
  for (std::int64_t i = 0; i < 80; ++i) {
    labels.push_back(training.label(i));
    ++counts[training.label(i)];
  }
  EXPECT_THAT(counts, Each(8));
  std::vector<int> in_order(80);
  for (int i = 0; i < 80; ++i) in_order[static_cast<std::size_t>(i)] = i % 10;
  EXPECT_NE(labels, in_order);

  const StandInImages validation(options(), Split::validation);
  ASSERT_EQ(validation.size(), 30);
  for (std::int64_t i = 0; i < 30; ++i) EXPECT_EQ(validation.label(i), i % 10);
}

TEST_F(StandIn, ImagesDependOnSeedSplitAndIndexAlone) {
  const StandInImages once(options(), Split::train), again(options(), Split::train);
  const StandInImages other(options(2), Split::train);
  std::set<std::string> all;
  for (std::int64_t i = 0; i < once.size(); ++i) {
    const auto pixels = paint(once, i);
    all.emplace(pixels.begin(), pixels.end());
    EXPECT_EQ(paint(again, once.size() - 1 - i), paint(once, once.size() - 1 - i));
    EXPECT_NE(paint(other, i), pixels);
  }
  EXPECT_EQ(all.size(), 80U) << "no two images are alike";
}

// Mean and deviation of many images' values are what the parameters imply.
TEST_F(StandIn, ImagesAreNeitherFlatNorSaturated) {
  const StandInImages images(options(), Split::train);
  double sum = 0, squares = 0, extremes = 0, count = 0;
  for (std::int64_t i = 0; i < images.size(); ++i) {
    for (const auto byte : paint(images, i)) {
      const double value = byte / 255.0;
      sum += value;
      squares += value * value;
      extremes += byte == 0 || byte == 255 ? 1 : 0;
      ++count;
    }
  }
  const double mean = sum / count, deviation = std::sqrt(squares / count - mean * mean);
  EXPECT_NEAR(mean, .4, .12);
  EXPECT_NEAR(deviation, .22, .08);
  EXPECT_LT(extremes / count, .1);
}

TEST_F(StandIn, FilesAreTheSameForAnyNumberOfThreads) {
  std::mutex mutex;
  std::vector<std::int64_t> totals;
  const WriteOptions four{.threads = 4, .progress = [&](std::int64_t done, std::int64_t total) {
                            const std::lock_guard lock(mutex);
                            EXPECT_LE(done, total);
                            totals.push_back(total);
                          }};
  const auto counts = write_cifar10_stand_in(folder / "one", options(), {.threads = 1});
  write_cifar10_stand_in(folder / "four", options(), four);
  EXPECT_THAT(counts, ::testing::ElementsAre(80, 30));
  EXPECT_THAT(totals, AllOf(::testing::Not(::testing::IsEmpty()), Each(110)));
  EXPECT_EQ(contents(folder / "one"), contents(folder / "four"));
  EXPECT_EQ(contents(folder / "one").size(), 7U);
}

TEST_F(StandIn, WritesWhatCifar10DatasetReads) {
  write_cifar10_stand_in(folder / "made", options(), {});
  for (const auto split : {Split::train, Split::validation}) {
    const Cifar10Dataset dataset(folder / "made", split);
    const StandInImages images(options(), split);
    ASSERT_EQ(dataset.size(), images.size());
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      EXPECT_EQ(dataset.label(i), images.label(i));
      EXPECT_TRUE(std::ranges::equal(dataset.pixels(i), paint(images, i)));
    }
    EXPECT_EQ(dataset.class_names().front(), "T-shirt/top");
  }
}

TEST_F(StandIn, ReplacesOnlyOnRequest) {
  const auto made = folder / "made";
  write_cifar10_stand_in(made, options(1), {});
  const auto before = contents(made);
  EXPECT_TRUE(says(message_of<InputError>([&] { write_cifar10_stand_in(made, options(2), {}); }),
                   {"not empty"}));
  EXPECT_EQ(contents(made), before);
  write_cifar10_stand_in(made, options(2), {.replace = true});
  EXPECT_NE(contents(made), before);
  folder.write("made/notes", "mine");
  EXPECT_TRUE(says(
      message_of<InputError>([&] { write_cifar10_stand_in(made, options(1), {.replace = true}); }),
      {"notes, which would be lost"}));
}

TEST_F(StandIn, AFailureLeavesNothing) {
  const auto rejection = [&](std::int64_t per_class) {
    auto wanted = options();
    wanted.per_class = per_class;
    return message_of<InputError>([&] { write_cifar10_stand_in(folder / "made", wanted, {}); });
  };
  EXPECT_TRUE(says(rejection(11), {"11 images of class 0", "has 10"}));
  EXPECT_TRUE(says(rejection(0), {"at least 1"}));
  write_small_mnist(source.path(), 100, 30, 20);
  EXPECT_TRUE(says(rejection(8), {"20 x 20", "28 x 28"}));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace kolo::testing
