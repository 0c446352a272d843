// Data without samples for validation: every fifth of each class validates.
#include <fmt/format.h>

#include "config/config_fixture.h"
#include "data/array_files.h"
#include "data/images/image_files.h"
#include "data/read_sample.h"
#include "kolo/config/factories.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo {
namespace {

using testing::message_of;
using testing::read_sample;

class AutomaticSplit : public testing::ConfigTest {
 protected:
  // Images of one colour each, which tells them apart: 10 * class + number.
  void write_images(const std::string& name, int label, int count) const {
    for (int i = 0; i < count; ++i) {
      const auto colour = static_cast<char>(10 * label + i);
      folder_.write(fmt::format("images/{}/{}.png", name, i),
                    testing::png_file(8, 8, std::string(std::size_t{3} * 64, colour)));
    }
  }
  [[nodiscard]] Datasets datasets(const std::string& data, Overrides overrides = {},
                                  const DataReading& reading = {}) const {
    return make_datasets(
        load("data: {" + data + "}\nmodel: {name: mlp}\n" + "optimizer: {name: sgd}\n",
             std::move(overrides)),
        reading);
  }
  [[nodiscard]] Datasets images(Overrides overrides = {}, const DataReading& reading = {}) const {
    return datasets(
        "name: imagenet, augment: false, preprocessing: none, input_shape: [8, 8, 3], train_dir: " +
            (folder_ / "images").string(),
        std::move(overrides), reading);
  }
  static std::vector<int> first_numbers(const Dataset& dataset) {
    std::vector<int> numbers;
    for (std::int64_t i = 0; i < dataset.size(); ++i)
      numbers.push_back(static_cast<int>(read_sample(dataset, i).input[0] + .5F));
    return numbers;
  }
};

TEST_F(AutomaticSplit, EveryFifthImageOfEachClassValidates) {
  write_images("a", 0, 7);
  write_images("b", 1, 2);
  for (const auto& overrides : {Overrides{}, Overrides{"data.random_crop=0.5"}}) {
    const auto found = images(overrides);
    EXPECT_THAT(first_numbers(*found.training), ElementsAre(0, 2, 3, 4, 5, 10));
    EXPECT_THAT(first_numbers(*found.validation), ElementsAre(1, 6, 11));
    EXPECT_EQ(read_sample(*found.validation, 2).label, 1);
    EXPECT_TRUE(says(found.note_of_split,
                     {"every fifth sample of each class validates", "there is no valid_dir"}));
  }
  const auto some = images({"data.n_train=2", "data.n_valid=1"});
  EXPECT_THAT(first_numbers(*some.training), ElementsAre(0, 4));
  EXPECT_EQ(some.validation->size(), 1);
  write_images("c", 2, 1);
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)images(); }),
                   {"data.train_dir: ", "c has one sample", "data.valid_dir"}));
}

TEST_F(AutomaticSplit, ImagesAreMagnifiedWhereTrainingImagesVary) {
  std::string pixels;  // brighter to the right
  for (int i = 0; i < 64; ++i) pixels.append(3, static_cast<char>(15 * (i % 8)));
  for (const auto* const name : {"images/a/1.png", "images/a/2.png"})
    folder_.write(name, testing::png_file(8, 8, pixels));
  const auto first = [](const std::shared_ptr<const Dataset>& dataset) {
    return read_sample(*dataset, 0).input[0];
  };
  const auto plain = images();
  EXPECT_EQ(first(plain.training), 0);
  EXPECT_EQ(first(plain.validation), 0);
  for (const auto* const variation : {"data.zoom=0.5", "data.random_crop=0.5"}) {
    EXPECT_EQ(first(images({variation}).validation), 0) << variation;
    const auto read = images({"data.augment=true", variation}, {.varies = false});
    EXPECT_GT(first(read.validation), 4) << variation;
    EXPECT_EQ(first(read.training), first(read.validation)) << variation;
  }
}

TEST_F(AutomaticSplit, EveryFifthSampleOfArraysValidates) {
  const std::vector<float> numbers{0, 1, 2, 3, 4, 5, 6};
  folder_.write("inputs.npy", testing::npy_array({7}, numbers));
  folder_.write("targets.npy", testing::npy_array({7}, numbers));
  const auto path = "name: arrays, train_path: " + folder_.path().string();
  const auto found = datasets(path);
  EXPECT_THAT(first_numbers(*found.training), ElementsAre(0, 2, 3, 4, 5));
  EXPECT_THAT(first_numbers(*found.validation), ElementsAre(1, 6));
  EXPECT_TRUE(says(found.note_of_split, {"every fifth sample validates", "valid_path"}));
  const auto named = datasets(path + ", valid_path: " + folder_.path().string());
  EXPECT_EQ(named.training->size(), 7);
  EXPECT_EQ(named.note_of_split, "");
}

TEST_F(AutomaticSplit, WholeNumbersNamedLabelOrYAreClasses) {
  folder_.write("inputs.npy", testing::npy_array({6}, std::vector<float>(6)));
  folder_.write("y.npy", testing::npy_array({6}, std::vector<std::int64_t>{0, 1, 2, 0, 1, 2}));
  const auto path = "name: arrays, train_path: " + folder_.path().string();
  EXPECT_EQ(datasets(path).training->layout().classes, 3);
  folder_.write("targets.npy", testing::npy_array({6}, std::vector<float>(6)));
  EXPECT_EQ(datasets(path, {"training.loss=mse"}).training->layout().classes, 0);
}

}  // namespace
}  // namespace kolo
