#include <torch/types.h>

#include "data/boxes/boxes.h"
#include "kolo/base/error.h"
#include "kolo/data/dataset.h"
#include "kolo/data/nbody.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

struct Sample {
  torch::Tensor input, target;
};

Sample read(const Dataset& dataset, std::int64_t index, std::int64_t epoch) {
  const auto& layout = dataset.layout();
  Sample sample{torch::full(layout.input_shape, -1e9F), torch::full(layout.target_shape, -1e9F)};
  const auto place = [](torch::Tensor& tensor) {
    return std::span(tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel()));
  };
  dataset.read(index, epoch, {place(sample.input), {}, place(sample.target)});
  return sample;
}

torch::Tensor rows_of(torch::Tensor field, std::span<const RowRange> rows) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    field = field.narrow(static_cast<std::int64_t>(i) + 1, rows[i].begin, rows[i].size());
  return field;
}

// Some parts of samples with three axes of `edge` rows.
std::vector<std::vector<RowRange>> parts(std::int64_t edge) {
  const auto half = edge / 2;
  return {{{0, half}, {0, edge}, {0, edge}},
          {{half, edge}, {0, edge}, {0, edge}},
          {{1, half + 1}, {2, edge}, {0, 3}},
          {{0, edge}, {half, edge}, {0, half}},
          {{edge - 1, edge}, {0, 1}, {half, half + 1}}};
}

void expect_parts_of(const std::shared_ptr<const Dataset>& dataset, std::int64_t edge) {
  for (const auto& rows : parts(edge)) {
    const auto part = part_of_samples(dataset, rows);
    ASSERT_EQ(part->size(), dataset->size());
    for (std::int64_t index = 0; index < dataset->size(); ++index) {
      const auto whole = read(*dataset, index, 3), found = read(*part, index, 3);
      EXPECT_TRUE(torch::equal(found.input, rows_of(whole.input, rows)));
      EXPECT_TRUE(torch::equal(found.target, rows_of(whole.target, rows)));
    }
  }
}

TEST(DatasetPart, OfTurnedCropsHasTheCropsRows) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "box.h5";
  write_box_hdf5(numbered_box(12), file);
  for (const auto rotations : {Rotations::none, Rotations::tutorial, Rotations::vector}) {
    for (const auto mode : {BoxMode::lowmem, BoxMode::inmem}) {
      expect_parts_of(
          std::make_shared<NbodyDataset>(NbodyOptions{
              .file = file, .mode = mode, .crop = 6, .samples = 12, .rotations = rotations}),
          6);
    }
  }
}

TEST(DatasetPart, OfLargeCropsIsTheSameToo) {
  expect_parts_of(std::make_shared<NbodyDataset>(NbodyOptions{
                      .mode = BoxMode::synthetic, .box_size = 70, .crop = 64, .samples = 3}),
                  64);
}

TEST(DatasetPart, OfAnyFieldsAndOfSubsets) {
  const auto random = std::make_shared<RandomDataset>(
      SampleLayout{.input_shape = {2, 8, 8, 8}, .target_shape = {3, 8, 8, 8}}, 9, 7);
  expect_parts_of(random, 8);
  expect_parts_of(std::make_shared<Subset>(random, std::vector<std::int64_t>{0, 3, 6}), 8);
}

TEST(DatasetPart, OfAPartIsWhereItSays) {
  const auto whole = std::make_shared<NbodyDataset>(
      NbodyOptions{.mode = BoxMode::synthetic, .box_size = 16, .crop = 8, .samples = 4});
  const std::vector<RowRange> outer{{2, 8}, {0, 6}, {1, 7}}, inner{{1, 3}, {2, 6}, {0, 4}},
      both{{3, 5}, {2, 6}, {1, 5}};
  const auto part = part_of_samples(part_of_samples(whole, outer), inner);
  for (std::int64_t index = 0; index < 4; ++index) {
    EXPECT_TRUE(
        torch::equal(read(*part, index, 1).input, rows_of(read(*whole, index, 1).input, both)));
  }
}

TEST(DatasetPart, OfImagesWithClassesHasWholeTargets) {
  const auto images =
      std::make_shared<RandomDataset>(SampleLayout{.input_shape = {3, 8, 6}, .classes = 10}, 5, 1);
  const std::vector<RowRange> rows{{4, 8}, {0, 6}};
  const auto part = part_of_samples(images, rows);
  std::vector<float> input(3 * 4 * 6);
  std::int64_t label = -1;
  part->read(2, 0, {input, std::span(&label, 1), {}});
  EXPECT_GE(label, 0);
}

TEST(DatasetPart, RowsThatAreNotThereAreNamed) {
  const auto random = std::make_shared<RandomDataset>(
      SampleLayout{.input_shape = {2, 8, 8}, .target_shape = {1, 8, 8}}, 2, 7);
  const auto message = [&](std::vector<RowRange> rows) {
    return message_of<Error>([&] { (void)part_of_samples(random, rows); });
  };
  EXPECT_TRUE(says(message({{0, 9}, {0, 8}}), {"rows 0 to 9, 0 to 8 of inputs of [2, 8, 8]"}));
  EXPECT_TRUE(says(message({{0, 8}}), {"expected a range inside each axis"}));
  EXPECT_TRUE(says(message({{3, 3}, {0, 8}}), {"rows 3 to 3"}));
}

}  // namespace
}  // namespace kolo::testing
