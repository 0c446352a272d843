#include "kolo/data/mnist.h"

#include "data/gzip_bytes.h"
#include "data/images/image_files.h"
#include "data/read_sample.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/data/catalogue.h"
#include "support/errors.h"
#include "support/idx_files.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

std::string rejection(const TemporaryFolder& folder) {
  return message_of<InputError>([&] { MnistDataset(folder.path(), Split::train); });
}

TEST(Mnist, ReadsFashionMnist) {
  // The data set's own message names the package if it is missing.
  const std::filesystem::path folder = fashion_mnist_folder;
  const MnistDataset training(folder, Split::train);
  EXPECT_EQ(training.size(), 60000);
  EXPECT_THAT(training.layout().input_shape, ElementsAre(1, 28, 28));
  EXPECT_EQ(training.layout().classes, 10);
  std::vector<std::int64_t> labels, counts(10);
  for (std::int64_t i = 0; i < training.size(); ++i) {
    labels.push_back(read_sample(training, i).label);
    ++counts.at(static_cast<std::size_t>(labels.back()));
  }
  labels.resize(5);
  EXPECT_THAT(labels, ElementsAre(9, 0, 0, 3, 0));
  EXPECT_THAT(counts, ::testing::Each(6000));

  const MnistDataset validation(folder, Split::validation);
  EXPECT_EQ(validation.size(), 10000);
  EXPECT_EQ(read_sample(validation, 0).label, 9);
  for (const auto* const data : {&training, &validation})
    EXPECT_EQ(data->class_names().at(9), "Ankle boot");
}

TEST(Mnist, NormalisesPixels) {
  const TemporaryFolder folder;
  folder.write("train-images-idx3-ubyte",
               idx_bytes(8, {2, 1, 3}, std::string_view("\x00\x01\x02\x80\xfe\xff", 6)));
  folder.write("train-labels-idx1-ubyte", idx_bytes(8, {2}, std::string_view("\x00\x09", 2)));
  const MnistDataset standard(folder.path(), Split::train);
  EXPECT_THAT(standard.layout().input_shape, ElementsAre(1, 1, 3));
  EXPECT_FLOAT_EQ(read_sample(standard, 0).input[0], -.42421296F);
  EXPECT_FLOAT_EQ(read_sample(standard, 1).input[2], 2.8214867F);
  EXPECT_EQ(read_sample(standard, 1).label, 9);
  EXPECT_THAT(standard.class_names(), ::testing::IsEmpty()) << "data that kolo doesn't know";
}

TEST(Mnist, FilesMayBeNamedAndPlacedAsOthersDo) {
  const TemporaryFolder folder;
  const auto size_at = [&](std::string_view place, std::string_view first = "MNIST") {
    return MnistDataset(mnist_folder(folder / place, first), Split::train).size();
  };
  folder.write("dots/train-images.idx3-ubyte", idx_bytes(8, {2, 1, 1}, "ab"));
  folder.write("dots/train-labels.idx1-ubyte.gz", gzip_bytes(idx_bytes(8, {2}, "\x01\x02")));
  EXPECT_EQ(size_at("dots"), 2);
  write_small_mnist(folder / "vision/MNIST/raw", 3, 1);
  write_small_mnist(folder / "vision/FashionMNIST/raw", 4, 1);
  for (const auto* const place : {"vision", "vision/MNIST", "vision/MNIST/raw"})
    EXPECT_EQ(size_at(place), 3) << place;
  EXPECT_EQ(size_at("vision", "FashionMNIST"), 4);
}

TEST(Mnist, ReadsEachSplitPlainOrGzip) {
  const TemporaryFolder plain, packed;
  write_small_mnist(plain.path(), 30, 20, 20);
  for (const auto& entry : std::filesystem::directory_iterator(plain.path())) {
    packed.write(entry.path().filename().string() + ".gz",
                 gzip_bytes(read_text_file(entry.path())));
  }
  for (const auto split : {Split::train, Split::validation}) {
    const MnistDataset a(plain.path(), split), b(packed.path(), split);
    ASSERT_EQ(a.size(), split == Split::train ? 30 : 20);
    ASSERT_EQ(b.size(), a.size());
    for (std::int64_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(read_sample(a, i).label, i % 10);
      EXPECT_EQ(read_sample(b, i).label, i % 10);
      EXPECT_EQ(read_sample(a, i).input, read_sample(b, i).input);
    }
  }
}

TEST(Mnist, NamesThePackageForAMissingFile) {
  const TemporaryFolder folder;
  EXPECT_TRUE(says(rejection(folder), {"train-images-idx3-ubyte", folder.path().string(),
                                       "dataset-fashion-mnist", "/usr/share/datasets"}));
  write_small_mnist(folder.path(), 1, 1);
  std::filesystem::remove(folder / "train-labels-idx1-ubyte");
  EXPECT_TRUE(says(rejection(folder), {"train-labels-idx1-ubyte"}));
  EXPECT_TRUE(
      says(message_of<InputError>([&] { MnistDataset(folder / "none", Split::validation); }),
           {"t10k-images", "does not exist"}));
}

TEST(Mnist, RejectsFilesThatDoNotFitTogether) {
  const TemporaryFolder folder;
  write_small_mnist(folder.path(), 3, 1);
  folder.write("train-labels-idx1-ubyte", idx_bytes(8, {4}, std::string_view("\0\1\2\3", 4)));
  EXPECT_TRUE(says(rejection(folder), {"3 images", "4 labels"}));
  folder.write("train-labels-idx1-ubyte", idx_bytes(8, {3}, std::string_view("\0\1\12", 3)));
  EXPECT_TRUE(says(rejection(folder), {"label 2", "is 10", "expected 0 to 9"}));
  std::filesystem::copy_file(folder / "train-images-idx3-ubyte", folder / "train-labels-idx1-ubyte",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(says(rejection(folder), {"00000803", "labels"}));
}

TEST(Mnist, RefusesSamplesAndPlacesThatAreNotThere) {
  const TemporaryFolder folder;
  write_small_mnist(folder.path(), 3, 1);
  const MnistDataset dataset(folder.path(), Split::train);
  EXPECT_TRUE(says(message_of<Error>([&] { (void)read_sample(dataset, 3); }),
                   {"sample 3 of a dataset of 3"}));
  EXPECT_TRUE(says(message_of<Error>([&] { (void)read_sample(dataset, -1); }), {"sample -1"}));
  std::vector<float> short_input(783);
  std::int64_t label = 0;
  EXPECT_TRUE(says(message_of<Error>([&] {
                     dataset.read(0, 0, {short_input, {&label, 1}, {}});
                   }),
                   {"784", "783"}));
}

TEST(Subset, HasTheSamplesThatItIsMadeOf) {
  const TemporaryFolder folder;
  write_small_mnist(folder.path(), 20, 1);
  const auto whole = std::make_shared<MnistDataset>(folder.path(), Split::train);
  const auto subset = [&](std::vector<std::int64_t> samples) { return Subset(whole, samples); };
  const auto some = subset({3, 19});
  EXPECT_EQ(some.size(), 2);
  EXPECT_EQ(some.layout().input_shape, whole->layout().input_shape);
  EXPECT_EQ(read_sample(some, 1).input, read_sample(*whole, 19).input);
  EXPECT_TRUE(says(message_of<Error>([&] { (void)read_sample(some, 2); }), {"sample 2"}));
  EXPECT_TRUE(says(message_of<Error>([&] { (void)subset({}); }), {"no samples"}));
  EXPECT_TRUE(says(message_of<Error>([&] { (void)subset({0, 20}); }), {"sample 20"}));
}

TEST(Mnist, IsReadIntoMemoryThatIsGiven) {
  const TemporaryFolder folder;
  write_small_mnist(folder.path(), 30, 10);
  const MnistDataset at_once(folder.path(), Split::train);
  EXPECT_FALSE(at_once.load());
  const MnistDataset later(folder.path(), Split::train, true);
  ASSERT_TRUE(later.load());
  EXPECT_EQ(later.load()->bytes, 30U * 28 * 28);
  EXPECT_EQ(later.size(), 30);
  EXPECT_TRUE(says(message_of<Error>([&] { (void)read_sample(later, 0); }),
                   {"before the images are loaded"}));
  (void)load_in_parts(*later.load(), 3);
  for (std::int64_t i = 0; i < 30; ++i) {
    EXPECT_EQ(read_sample(later, i).input, read_sample(at_once, i).input);
    EXPECT_EQ(read_sample(later, i).label, read_sample(at_once, i).label);
  }
}

TEST(Mnist, DamageOfACompressedFileIsSeenInTheLoad) {
  const TemporaryFolder folder;
  write_small_mnist(folder.path(), 30, 10);
  const auto file = folder / "train-images-idx3-ubyte";
  auto packed = gzip_bytes(idx_bytes(8, {30, 28, 28}, std::string(30 * 28 * 28, 'x')));
  packed[packed.size() - 8] ^= 1;  // of its checksum
  testing::write_file(file, packed);
  const MnistDataset later(folder.path(), Split::train, true);
  EXPECT_TRUE(says(message_of<InputError>([&] { load_alone(*later.load()); }), {"corrupt gzip"}));
  testing::write_file(file, idx_bytes(8, {30, 28, 28}, std::string(30 * 28 * 28 - 1, 'x')));
  EXPECT_TRUE(says(message_of<InputError>([&] { MnistDataset(folder.path(), Split::train, true); }),
                   {"truncated"}));
}

// Grey pictures have the pixels that an IDX file would give them.
TEST(Mnist, OpensPicturesToPredictFrom) {
  const TemporaryFolder folder;
  write_small_mnist(folder.path(), 10, 10);
  const MnistDataset digits(folder.path(), Split::validation);
  for (const std::int64_t index : {2, 10}) {
    std::string rows;
    for (std::size_t pixel = 0; pixel < 28 * 28; ++pixel) {
      if (pixel % 28 == 0) rows += '\0';
      rows += static_cast<char>(digits.pixels(index % 10)[pixel]);
    }
    folder.write("new/" + std::to_string(index) + ".png", testing::png_file({28, 28, 8, 0}, rows));
  }
  const auto& entry = dataset_entry("mnist");
  const auto pictures = entry.inputs(entry.completed({}), digits.layout(), folder / "new");
  ASSERT_EQ(pictures.samples->size(), 2);
  EXPECT_EQ(pictures.file(1), "10.png");
  const auto expected = read_sample(digits, 2).input,
             found = read_sample(*pictures.samples, 0).input;
  EXPECT_LT(testing::largest_difference(expected, found), 1e-5);
  const auto all =
      entry.inputs(entry.completed({}), digits.layout(), folder / "t10k-images-idx3-ubyte");
  EXPECT_EQ(read_sample(*all.samples, 2).input, expected);
}

}  // namespace
}  // namespace kolo::testing
