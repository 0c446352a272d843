#include "kolo/data/cifar10.h"

#include "data/read_sample.h"
#include "kolo/base/error.h"
#include "support/cifar10_files.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

class Cifar10 : public ::testing::Test {
 protected:
  Cifar10() { write_small_cifar10(folder.path(), 4); }

  [[nodiscard]] std::string rejection(Split split = Split::train) const {
    return message_of<InputError>([&] { Cifar10Dataset(folder.path(), split); });
  }

  // The message about data_batch_3.bin with this content.
  [[nodiscard]] std::string rejection_of(const std::string& content) const {
    folder.write("data_batch_3.bin", content);
    const auto message = rejection();
    EXPECT_TRUE(says(message, {(folder / "data_batch_3.bin").string()}));
    return message;
  }

  TemporaryFolder folder;
};

void expect_images(const Cifar10Dataset& dataset, int first) {
  for (std::int64_t index = 0; index < dataset.size(); ++index) {
    const auto sample = read_sample(dataset, index);
    const auto image = first + static_cast<int>(index);
    const auto bytes = dataset.pixels(index);
    ASSERT_EQ(sample.label, image % 10);
    ASSERT_EQ(dataset.label(index), sample.label);
    for (int i = 0; i < 3072; ++i) {
      const auto place = static_cast<std::size_t>(i);
      ASSERT_EQ(bytes[place], (image + i * 7) % 256);
      ASSERT_EQ(sample.input[place], static_cast<float>(bytes[place]) / 255.0F);
    }
  }
}

TEST_F(Cifar10, ReadsBothSplits) {
  const Cifar10Dataset training(folder.path(), Split::train);
  EXPECT_EQ(training.size(), 20);
  EXPECT_THAT(training.layout().input_shape, ElementsAre(3, 32, 32));
  EXPECT_EQ(training.layout().classes, 10);
  expect_images(training, 0);
  const Cifar10Dataset validation(folder.path(), Split::validation);
  EXPECT_EQ(validation.size(), 4);
  expect_images(validation, 100);
  EXPECT_THAT(validation.class_names(),
              ElementsAre("a", "b", "c", "d", "e", "f", "g", "h", "i", "j"));
}

TEST_F(Cifar10, FindsTheFolderInsideTheFolder) {
  const TemporaryFolder outer;
  write_small_cifar10(outer / "cifar-10-batches-bin", 2);
  EXPECT_EQ(Cifar10Dataset(outer.path(), Split::train).size(), 10);
  EXPECT_EQ(Cifar10Dataset(outer.path(), Split::validation).size(), 2);
}

TEST_F(Cifar10, BatchesMayDifferInSizeAndNamesMayBeMissing) {
  folder.write("data_batch_5.bin", cifar10_batch(16, 9));
  std::filesystem::remove(folder / "batches.meta.txt");
  const Cifar10Dataset training(folder.path(), Split::train);
  EXPECT_EQ(training.size(), 25);
  EXPECT_THAT(training.class_names(), ElementsAre("airplane", "automobile", "bird", "cat", "deer",
                                                  "dog", "frog", "horse", "ship", "truck"));
  expect_images(training, 0);
}

TEST_F(Cifar10, RejectsDamagedBatches) {
  EXPECT_TRUE(says(rejection_of(""), {"empty", "3073"}));
  EXPECT_TRUE(says(rejection_of(cifar10_batch(0, 4).substr(0, 10000)),
                   {"10000 bytes", "multiple of 3073"}));
  EXPECT_TRUE(says(rejection_of(cifar10_batch(0, 4) + "x"), {"12293 bytes"}));
  EXPECT_TRUE(says(rejection_of(std::string(5 * 3074, '\1')), {"CIFAR-100"}));
  EXPECT_TRUE(says(rejection_of(cifar10_batch(0, 2) + cifar10_row(10, 3)),
                   {"image 2", "offset 6146", "is 10", "0 to 9"}));
}

TEST_F(Cifar10, NamesTheMissingBatch) {
  std::filesystem::remove(folder / "data_batch_4.bin");
  EXPECT_TRUE(says(rejection(), {"data_batch_4.bin", folder.path().string()}));
  EXPECT_EQ(Cifar10Dataset(folder.path(), Split::validation).size(), 4);
}

TEST(Cifar10Folder, SaysWhatTheFolderHoldsInstead) {
  const TemporaryFolder folder;
  const auto rejection = [&](const std::filesystem::path& path) {
    return message_of<InputError>([&] { Cifar10Dataset(path, Split::train); });
  };
  EXPECT_TRUE(says(rejection(folder / "none"), {"no such folder"}));
  EXPECT_TRUE(says(rejection(folder.path()), {"data_batch_1.bin", "kolo data fetch cifar10"}));
  folder.write("train.bin", "x");
  EXPECT_TRUE(says(rejection(folder.path()), {"CIFAR-100"}));
  folder.write("cifar-10-batches-py/data_batch_1", "x");
  EXPECT_TRUE(says(rejection(folder.path()), {"pickled"}));
}

TEST_F(Cifar10, RejectsDamagedClassNames) {
  folder.write("batches.meta.txt", "a\nb\n");
  EXPECT_TRUE(says(rejection(), {"batches.meta.txt", "2 names"}));
  folder.write("batches.meta.txt", std::string(5000, 'a'));
  EXPECT_TRUE(says(rejection(), {"longer than"}));
}

TEST_F(Cifar10, IsReadInPartsIntoMemoryThatIsGiven) {
  for (const int parts : {1, 3, 7, 30}) {
    const Cifar10Dataset training(folder.path(), Split::train, true);
    EXPECT_EQ(training.size(), 20);
    ASSERT_TRUE(training.load());
    EXPECT_EQ(training.load()->bytes, 20 * cifar10_row_bytes);
    EXPECT_TRUE(says(message_of<Error>([&] { (void)training.pixels(0); }),
                     {"before the images are loaded"}));
    const auto memory = load_in_parts(*training.load(), parts);
    EXPECT_EQ(reinterpret_cast<const std::byte*>(training.pixels(0).data()), memory.get() + 1);
    expect_images(training, 0);
  }
  EXPECT_FALSE(Cifar10Dataset(folder.path(), Split::train).load());
}

TEST_F(Cifar10, LabelsAreCheckedByTheLoad) {
  folder.write("data_batch_3.bin", cifar10_row(1, 5) + cifar10_row(10, 5));
  const Cifar10Dataset training(folder.path(), Split::train, true);
  EXPECT_TRUE(says(message_of<InputError>([&] { load_alone(*training.load()); }),
                   {"data_batch_3.bin", "the label of image 1 at offset 3073 is 10"}));
}

TEST_F(Cifar10, RefusesSamplesThatAreNotThere) {
  const Cifar10Dataset training(folder.path(), Split::train);
  for (const std::int64_t index : {-1, 20}) {
    EXPECT_TRUE(
        says(message_of<Error>([&] { (void)training.pixels(index); }), {"of a dataset of 20"}));
    EXPECT_TRUE(says(message_of<Error>([&] { (void)read_sample(training, index); }),
                     {"of a dataset of 20"}));
  }
}

}  // namespace
}  // namespace kolo::testing
