#include "kolo/data/image_folder.h"

#include <numeric>

#include <sys/stat.h>

#include "data/images/image_files.h"
#include "data/read_sample.h"
#include "kolo/base/error.h"
#include "kolo/data/augmentation.h"
#include "kolo/data/loader.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;

class ImageFolder : public ::testing::Test {
 protected:
  void write(std::string_view name, unsigned seed = 1) {
    folder_.write(name, png_file(noise_image(6, 8, seed)));
  }
  std::string rejection(const ImageFolderOptions& options = {8, 8}) {
    return message_of<InputError>([&] { ImageFolderDataset(folder_.path(), options); });
  }
  // Message about reading the only image, x/a.*.
  std::string read_rejection() {
    const ImageFolderDataset dataset(folder_.path(), {8, 8});
    return message_of<InputError>([&] { (void)read_sample(dataset, 0); });
  }
  std::vector<std::string> paths(const ImageFolderDataset& dataset) {
    std::vector<std::string> paths;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      paths.push_back(dataset.path(i).lexically_relative(folder_.path()));
    }
    return paths;
  }

  TemporaryFolder folder_;
};

TEST_F(ImageFolder, NumbersClassesAndFilesInNaturalOrder) {
  for (const char* name : {"b/2.png", "b/10.png", "b/deep/er/1.png", "B/x.png", "a-/x.png",
                           "a/x.png", "\xc3\xa4/x.png", "\xff\xfe/x\xff.png"}) {
    write(name);
  }
  write(".hidden/x.png");
  write("b/.hidden.png");
  write("b/.hidden/x.png");
  folder_.write("b/notes.txt", "not an image");
  folder_.write("notes.txt", "not a class");
  const ImageFolderDataset dataset(folder_.path(), {8, 8});
  EXPECT_THAT(dataset.class_names(), ElementsAre("B", "a", "a-", "b", "\xc3\xa4", "\xff\xfe"));
  EXPECT_THAT(paths(dataset),
              ElementsAre("B/x.png", "a/x.png", "a-/x.png", "b/2.png", "b/10.png",
                          "b/deep/er/1.png", "\xc3\xa4/x.png", "\xff\xfe/x\xff.png"));
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    labels.push_back(read_sample(dataset, i).label);
    EXPECT_EQ(labels.back(), dataset.label(i));
  }
  EXPECT_THAT(labels, ElementsAre(0, 1, 2, 3, 3, 3, 4, 5));
  EXPECT_EQ(dataset.layout().classes, 6);
}

TEST_F(ImageFolder, ClassesThatAreNumbersHaveTheirOrder) {
  for (const char* name : {"training/10/x.png", "training/2/x.png", "training/1/x.png",
                           "validation/1/x.png", "validation/2/x.png", "validation/10/x.png"})
    write(name);
  const ImageFolderDataset training(folder_ / "training", {8, 8});
  EXPECT_THAT(training.class_names(), ElementsAre("1", "2", "10"));
  const ImageFolderDataset validation(folder_ / "validation", {8, 8});
  require_same_classes(training, validation);
}

TEST_F(ImageFolder, DecodesAndResizes) {
  const auto image = noise_image(6, 8);
  folder_.write("x/a.png", png_file(image));
  folder_.write("x/b.JPG", text_of(encode_jpeg(image, 90)));
  const ImageFolderDataset same(folder_.path(), {6, 8});
  EXPECT_THAT(same.layout().input_shape, ElementsAre(3, 6, 8));
  const auto pixels = read_sample(same, 0).input;
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t i = 0; i < 48; ++i) EXPECT_EQ(pixels[48 * c + i], image.pixels[3 * i + c]);
  }
  const ImageFolderDataset small(folder_.path(), {1, 1});
  const auto& bytes = image.pixels;
  EXPECT_NEAR(read_sample(small, 0).input[0] + read_sample(small, 0).input[1] +
                  read_sample(small, 0).input[2],
              std::accumulate(bytes.begin(), bytes.end(), 0) / 48., 40);
  EXPECT_THAT(read_sample(small, 1).input, Each(::testing::Le(255)));
}

TEST_F(ImageFolder, LoadsAugmentedBatchesWithManyWorkers) {
  for (unsigned i = 0; i < 40; ++i) {
    folder_.write(std::string(i % 2 == 0 ? "x/" : "y/") + std::to_string(i) + ".jpg",
                  text_of(encode_jpeg(testing::smooth_image(40 + i, 70 - i, i), 90)));
  }
  const auto dataset = std::make_shared<AugmentedDataset>(
      std::make_shared<ImageFolderDataset>(folder_.path(), ImageFolderOptions{16, 16}),
      AugmentationOptions{.33, .33, .5, 1.5, true}, Preprocessing::caffe(), 5);
  for (const int workers : {0, 4}) {
    Loader loader(dataset, {40, 0, 1}, {8, workers, 3});
    loader.start_epoch(1);
    std::int64_t count = 0;
    while (const auto batch = loader.next()) {
      for (std::size_t i = 0; i < 8; ++i, ++count) {
        std::vector<float> expected(768);
        std::int64_t label = -1;
        dataset->read(batch->indices[i], 1, {expected, {&label, 1}, {}});
        const auto place = static_cast<std::int64_t>(i);
        EXPECT_TRUE(torch::equal(batch->input[place].flatten(), torch::tensor(expected)));
        EXPECT_EQ(batch->target[place].item<std::int64_t>(), label);
      }
    }
    EXPECT_EQ(count, 40);
  }
}

TEST_F(ImageFolder, PartsAreDrawnAnewInEachEpoch) {
  folder_.write("x/a.png", png_file(noise_image(64, 64, 1)));
  const ImageFolderDataset dataset(folder_.path(), {8, 8, .08, 3});
  const auto first = read_sample(dataset, 0, 1).input;
  EXPECT_EQ(read_sample(dataset, 0, 1).input, first);
  EXPECT_NE(read_sample(dataset, 0, 2).input, first);
}

TEST_F(ImageFolder, RejectsFoldersThatHoldNoClasses) {
  EXPECT_TRUE(says(rejection(), {"has no classes: no folders", "ROOT/CLASS"}));
  write("a.png");
  EXPECT_TRUE(says(rejection(), {"its images are not in folders"}));
  write("x/a.png");
  folder_.write("empty/notes.txt", "");
  EXPECT_TRUE(says(rejection(), {"the class empty has no images", "/empty"}));
  EXPECT_TRUE(says(message_of<InputError>([&] { ImageFolderDataset(folder_ / "none"); }),
                   {"none does not exist"}));
  EXPECT_TRUE(says(message_of<InputError>([&] { ImageFolderDataset(folder_ / "a.png"); }),
                   {"is not a folder"}));
}

TEST_F(ImageFolder, RejectsEmptyFilesAtOnceOrWhenRead) {
  folder_.write("x/a.jpg", "");
  EXPECT_TRUE(says(rejection(), {"x/a.jpg", "is empty"}));
  const ImageFolderDataset unseen(folder_.path(), {8, 8}, false);
  EXPECT_TRUE(
      says(message_of<InputError>([&] { (void)read_sample(unseen, 0); }), {"x/a.jpg", "is empty"}));
}

// ImageNet has a PNG that is named .JPEG.
TEST_F(ImageFolder, ReadsImagesByTheirContent) {
  write("x/a.jpg");
  const ImageFolderDataset dataset(folder_.path(), {8, 8});
  EXPECT_NO_THROW((void)read_sample(dataset, 0));
}

TEST_F(ImageFolder, RejectsFilesThatAreNoImages) {
  folder_.write("x/a.jpg", "GIF89a");
  EXPECT_TRUE(says(read_rejection(), {"x/a.jpg", "is no image"}));
}

TEST_F(ImageFolder, RejectsTruncatedImages) {
  const auto file = text_of(encode_jpeg(noise_image(50, 50), 90));
  folder_.write("x/a.jpg", file.substr(0, file.size() / 2));
  EXPECT_TRUE(says(read_rejection(), {"x/a.jpg (JPEG)", "Premature end"}));
  folder_.write("x/a.jpg", file);
  const ImageFolderDataset dataset(folder_.path(), {8, 8});
  fs::remove(folder_ / "x/a.jpg");
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)read_sample(dataset, 0); }),
                   {"x/a.jpg does not exist"}));
}

TEST_F(ImageFolder, FollowsLinksWhereverTheyLead) {
  const TemporaryFolder outside;
  outside.write("far.png", png_file(noise_image(6, 8, 9)));
  write("x/a.png");
  fs::create_symlink("a.png", folder_ / "x/b.png");
  fs::create_directory_symlink("x", folder_ / "y");
  const ImageFolderDataset dataset(folder_.path(), {6, 8});
  EXPECT_THAT(paths(dataset), ElementsAre("x/a.png", "x/b.png", "y/a.png", "y/b.png"));
  EXPECT_EQ(read_sample(dataset, 3).input, read_sample(dataset, 0).input);

  fs::create_symlink(outside / "far.png", folder_ / "x/c.png");
  fs::create_directory_symlink(outside.path(), folder_ / "x/deeper");
  fs::create_directory_symlink(outside.path(), folder_ / "z");
  const ImageFolderDataset more(folder_.path(), {6, 8});
  EXPECT_THAT(paths(more),
              ElementsAre("x/a.png", "x/b.png", "x/c.png", "x/deeper/far.png", "y/a.png", "y/b.png",
                          "y/c.png", "y/deeper/far.png", "z/far.png"));
  EXPECT_EQ(read_sample(more, 8).input, read_sample(more, 2).input);
  // Round in circles, also by way of outside.
  fs::create_directory_symlink(folder_ / "x", outside / "back");
  EXPECT_TRUE(says(rejection(), {"round in circles"}));
  for (const auto* const name : {"x/c.png", "x/deeper", "z"}) fs::remove(folder_ / name);
  fs::create_symlink("nowhere.png", folder_ / "x/d.png");
  EXPECT_TRUE(says(rejection(), {"x/d.png", "leads nowhere"}));
  fs::remove(folder_ / "x/d.png");
  fs::create_directory_symlink("..", folder_ / "x/up");
  EXPECT_TRUE(says(rejection(), {"round in circles"}));
  // A root that is itself a link.
  fs::remove(folder_ / "x/up");
  fs::create_directory_symlink(folder_.path(), outside / "link");
  EXPECT_EQ(ImageFolderDataset(outside / "link", {8, 8}).size(), 4);
}

TEST_F(ImageFolder, CountsWhatIsLeftOut) {
  write("x/a.png");
  write("y/a.png");
  for (const auto* const name : {"x/a.webp", "y/b.webp", "y/deep/c.gif", "y/.hidden.gif"})
    folder_.write(name, "RIFF");
  const auto listing = list_image_folder(folder_.path());
  EXPECT_EQ(listing.left_out, 3);
  EXPECT_TRUE(
      says(left_out_text(listing), {"3 files left out, such as x/a.webp; kolo reads .jpg .jpeg"}));
  fs::remove(folder_ / "x/a.png");
  EXPECT_TRUE(says(rejection(), {"class x has no images", "but a.webp"}));
}

TEST_F(ImageFolder, RejectsPipesAndFoldersNamedAsImages) {
  write("x/a.png");
  ASSERT_EQ(::mkfifo((folder_ / "x/b.png").c_str(), 0600), 0);
  EXPECT_TRUE(says(rejection(), {"x/b.png", "not a regular file"}));
  fs::remove(folder_ / "x/b.png");
  write("x/c.ppm/a.png");  // a folder may have any name
  EXPECT_EQ(ImageFolderDataset(folder_.path(), {8, 8}).size(), 2);
}

TEST_F(ImageFolder, RejectsOptionsOutOfRange) {
  write("x/a.png");
  EXPECT_TRUE(says(rejection({0, 8}), {"height of images is 0"}));
  EXPECT_TRUE(says(rejection({8, 100000}), {"width of images is 100000", "1 to 16384"}));
}

TEST_F(ImageFolder, ComparesTheClassesOfTrainingAndValidation) {
  for (const char* name : {"train/a/1.png", "train/b/1.png", "same/b/2.png", "same/a/1.png",
                           "less/a/1.png", "other/a/1.png", "other/c/1.png"}) {
    write(name);
  }
  const auto open = [&](const char* name) { return ImageFolderDataset(folder_ / name, {8, 8}); };
  const auto train = open("train");
  require_same_classes(train, open("same"));
  const auto rejection = [&](const char* name) {
    return message_of<InputError>([&] { require_same_classes(train, open(name)); });
  };
  EXPECT_TRUE(says(rejection("less"), {"less has no folder b", "/train has"}));
  EXPECT_TRUE(says(rejection("other"), {"train has no folder c"}));
}

}  // namespace
}  // namespace kolo::testing
