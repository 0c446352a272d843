// kolo init: what it writes for each kind of data is trained as it stands, and learns.
#include <cmath>

#include <gmock/gmock.h>

#include "cli/program.h"
#include "data/array_files.h"
#include "data/images/image_files.h"
#include "kolo/base/file.h"
#include "kolo/data/box_files.h"
#include "kolo/train/observe/history.h"
#include "support/cifar10_files.h"
#include "support/idx_files.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

class InitProgram : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }

  // Writes a configuration for the data, and returns it.
  std::string init(const std::string& data) {
    EXPECT_TRUE(succeeds(run_kolo({"init", path(data), "-o", path(data + ".yaml")}),
                         {"is written; next: kolo"}));
    return read_text_file(folder_ / (data + ".yaml"));
  }
  // Trains it for two epochs at most.
  std::string train(const std::string& data, const std::string& epochs = "2") {
    const auto trained =
        run_kolo({"train", path(data + ".yaml"), "--output", path(data + "-run"),
                  "training.n_epochs=" + epochs, "device.intra_threads=1", "data.workers=0"});
    EXPECT_EQ(trained.exit_code, 0) << trained.errors;
    return trained.output;
  }
  [[nodiscard]] std::string refusal(const std::string& data) const {
    const auto result = run_kolo({"init", path(data), "-o", path("other.yaml")});
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "other.yaml"));
    return result.errors;
  }
  void write_images(const std::string& folder, int count) {
    for (int i = 0; i < count; ++i) {
      for (const auto* const name : {"dark", "light"}) {
        const char level = static_cast<char>((name[0] == 'd' ? 10 : 90) + i);
        folder_.write(folder + "/" + name + "/" + std::to_string(i) + ".png",
                      png_file(20, 30, std::string(std::size_t{3} * 600, level)));
      }
    }
  }

  TemporaryFolder folder_;
};

TEST_F(InitProgram, PicturesInFolders) {
  write_images("a folder", 10);
  const auto text = init("a folder");
  EXPECT_TRUE(says(text, {"20 images of 2 classes, 20 to 30 pixels", "name: small_cnn",
                          "input_shape: [32, 32, 3]", "# valid_dir: ", "batch_size: 4"}));
  EXPECT_TRUE(says(train("a folder"), {"data imagenet: 16 training and 4 validation samples",
                                       "every fifth sample of each class validates"}));
  write_images("parts/train", 3);
  write_images("parts/val", 2);
  EXPECT_TRUE(says(init("parts"), {"train_dir: " + path("parts/train"),
                                   "valid_dir: " + path("parts/val"), "batch_size: 4"}));
}

TEST_F(InitProgram, FilesOfMnistAndCifar10) {
  write_small_mnist(folder_ / "digits", 200, 40);
  EXPECT_TRUE(says(init("digits"), {"name: mnist\n", "MNIST's format, 200 training images",
                                    "name: small_cnn", "batch_size: 8"}));
  EXPECT_TRUE(says(train("digits"), {"200 training and 40 validation samples"}));
  write_small_cifar10(folder_ / "cifar", 4);
  EXPECT_TRUE(says(init("cifar"), {"name: cifar10", "20 training images", "name: small_cnn"}));
  EXPECT_TRUE(says(train("cifar"), {"20 training and 4 validation samples"}));
}

TEST_F(InitProgram, ArraysOfNumbers) {
  std::vector<float> inputs, sums;
  std::vector<std::int64_t> classes;
  for (int i = 0; i < 100; ++i) {
    inputs.insert(inputs.end(), {100 * std::sin(3.F * static_cast<float>(i)), 1});
    sums.push_back(inputs[inputs.size() - 2] / 100 + 1);
    classes.push_back(sums.back() > 1 ? 1 : 0);
  }
  folder_.write("numbers/x.npy", npy_array({100, 2}, inputs));
  folder_.write("numbers/y.npy", npy_array({100}, sums));
  EXPECT_TRUE(says(init("numbers"), {"100 samples, x [2] as input, y as target", "inputs: [x]",
                                     "targets: [y]", "divisor: 100", "name: mlp", "loss: mse"}));
  (void)train("numbers", "20");
  EXPECT_LT(History::read(folder_ / "numbers-run" / "history.json").epochs().back().val_loss, .5);
  folder_.write("classes/x.npy", npy_array({100, 2}, inputs));
  folder_.write("classes/y.npy", npy_array({100}, classes));
  EXPECT_TRUE(says(init("classes"), {"y as 2 classes"}));
  EXPECT_TRUE(says(train("classes"), {"80 training and 20 validation samples", "accuracy"}));
  folder_.write("fields/image.npy", npy_array({20, 12, 12}, std::vector<float>(20 * 144)));
  folder_.write("fields/labels.npy", npy_array({20}, std::vector<std::int64_t>(20)));
  EXPECT_TRUE(says(init("fields"), {"image [1, 12, 12] as input", "name: small_cnn"}));
  folder_.write("riddle/a.npy", npy_array({20}, sums));
  folder_.write("riddle/b.npy", npy_array({20}, sums));
  EXPECT_TRUE(
      says(refusal("riddle"), {"has the arrays a, b, whose names don't say which are inputs"}));
}

TEST_F(InitProgram, BoxesOfASimulation) {
  SimulationBox box;
  box.size = 8;
  box.nbody.resize(std::size_t{nbody_channels} * 512);
  box.hydro.resize(std::size_t{hydro_channels} * 512);
  std::filesystem::create_directories(folder_ / "boxes");
  write_box_hdf5(box, folder_ / "boxes" / "train.h5");
  EXPECT_TRUE(says(init("boxes"), {"simulation box of 8^3 cells", "name: unet3d", "levels: 2",
                                   "crop: 8", "loss: l1", "# better another box"}));
  EXPECT_TRUE(succeeds(run_kolo({"train", path("boxes.yaml"), "data.n_train=4", "data.n_valid=1",
                                 "training.n_epochs=1", "--output", path("boxes-run")})));
}

TEST_F(InitProgram, RefusesWhatItCannotDo) {
  EXPECT_TRUE(says(refusal("nowhere"), {"nowhere"}));
  folder_.write("text.txt", "words");
  EXPECT_TRUE(says(refusal("text.txt"), {"text.txt"}));
  folder_.write("one.npy", npy_array({2}, std::vector<float>(2)));
  EXPECT_TRUE(says(refusal("one.npy"), {"is of another kind (.npy array): expected a folder"}));
  folder_.write("there.yaml", "mine");
  write_images("pictures", 2);
  EXPECT_TRUE(is_refused(run_kolo({"init", path("pictures"), "-o", path("there.yaml")}),
                         {"there.yaml is there already; choose another --output"}));
  EXPECT_EQ(read_text_file(folder_ / "there.yaml"), "mine");
  EXPECT_TRUE(is_refused(run_kolo({"init", path("pictures"), "-o", path("there.yaml/own.yaml")}),
                         {"is there, and no folder"}));
  EXPECT_EQ(run_kolo({"init", path("pictures"), "-o", path("new/own.yaml")}).exit_code, 0);
}

// Batch norms that average over many steps are told of where an epoch has few.
TEST_F(InitProgram, SlowRunningStatisticsAreTold) {
  write_images("few", 40);
  (void)init("few");
  EXPECT_FALSE(says(train("few", "1"), {"running statistics"}));
  const auto slow = run_kolo({"train", path("few.yaml"), "--output", path("slow"),
                              "training.n_epochs=1", "model.batch_norm_momentum=0.99"});
  EXPECT_TRUE(
      says(slow.output, {"the batch norms of small_cnn have a momentum of 0.99",
                         "after an epoch of 16 steps 85 %", "model.batch_norm_momentum=0.8"}));
}

// The configurations of the courses say what they had as defaults.
TEST(CourseConfigurations, VaryImagesAsThere) {
  for (const auto* const name : {"/imagenet_resnet.yaml", "/resnet34.yaml"}) {
    const auto shown = run_kolo({"train", std::string(KOLO_CONFIGS) + name, "--show-config"});
    EXPECT_TRUE(says(shown.output, {"preprocessing: caffe", "height_shift: 0.33",
                                    "width_shift: 0.33", "zoom: 0.5"}));
  }
}

}  // namespace
}  // namespace kolo::testing
