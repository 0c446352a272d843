// Samples that a device makes have the bits of those that are read: by the loops that share their
// steps with kernels, and through the loader. There a GPU makes them by its kernels, and the
// simulated device, which has none, gets them as they are read.
#include <gmock/gmock.h>

#include "data/boxes/boxes.h"
#include "data/device_samples.h"
#include "kolo/base/error.h"
#include "kolo/data/augmentation.h"
#include "kolo/data/loader.h"
#include "kolo/data/nbody.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/temporary_folder.h"
#include "support/test_devices.h"

namespace kolo::testing {
namespace {

// Photographs of noise, as bytes.
class Photographs final : public Dataset {
 public:
  Photographs() : layout_{{3, 7, 10}, 4, {}} {}
  std::int64_t size() const override { return 40; }
  const SampleLayout& layout() const override { return layout_; }
  void read(std::int64_t index, std::int64_t, const SampleSpans& place) const override {
    check_read(index, place, 210, 1);
    for (std::size_t i = 0; i < place.input.size(); ++i)
      place.input[i] = static_cast<float>(pixel(index, i)) / 255.F;
    place.label[0] = index % 4;
  }
  std::optional<float> byte_divisor() const override { return 255.F; }
  void read_bytes(std::int64_t index, std::span<std::uint8_t> input,
                  std::span<std::int64_t> label) const override {
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = pixel(index, i);
    label[0] = index % 4;
  }

 private:
  static std::uint8_t pixel(std::int64_t index, std::size_t i) {
    return static_cast<std::uint8_t>((static_cast<std::size_t>(index) * 131 + i * i * 17) % 256);
  }
  SampleLayout layout_;
};

constexpr AugmentationOptions varied{.33, .33, .5, 1.5, true};

std::vector<std::shared_ptr<const Dataset>> augmented_datasets() {
  const auto bytes = std::make_shared<Photographs>();
  const auto numbers = std::make_shared<RandomDataset>(SampleLayout{{3, 7, 10}, 4, {}}, 40, 5);
  const auto some =
      std::make_shared<Subset>(bytes, std::vector<std::int64_t>{1, 4, 8, 9, 20, 21, 22, 29, 33});
  const auto of_channels = Preprocessing::mean_deviation({.4F, .5F, .6F}, {.2F, .25F, .3F});
  return {
      std::make_shared<AugmentedDataset>(bytes, varied, of_channels, 3),
      std::make_shared<AugmentedDataset>(some, varied, Preprocessing::caffe(), 3),
      std::make_shared<AugmentedDataset>(bytes, AugmentationOptions{}, Preprocessing::none(), 3),
      std::make_shared<AugmentedDataset>(numbers, varied, of_channels, 4),
      std::make_shared<AugmentedDataset>(numbers, varied, Preprocessing::unit(), 4)};
}

std::vector<Batch> batches_of(Loader& loader) {
  std::vector<Batch> batches;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    loader.start_epoch(epoch);
    while (auto batch = loader.next()) batches.push_back(std::move(*batch));
  }
  return batches;
}

// Through loaders, here and there.
void expect_the_same_there(const std::shared_ptr<const Dataset>& read,
                           const std::shared_ptr<const Dataset>& made) {
  Loader here(read, {read->size(), 0, 1, {.seed = 2}}, {.batch_size = 7, .workers = 2});
  Loader there(made, {made->size(), 0, 1, {.seed = 2}}, {.batch_size = 7, .workers = 2});
  there.deliver_to(test_device(0));
  const auto expected = batches_of(here), batches = batches_of(there);
  ASSERT_EQ(batches.size(), expected.size());
  for (std::size_t i = 0; i < batches.size(); ++i) {
    EXPECT_EQ(batches[i].input.device(), test_device(0));
    EXPECT_TRUE(torch::equal(batches[i].input.cpu(), expected[i].input));
    EXPECT_TRUE(torch::equal(batches[i].target.cpu(), expected[i].target));
  }
}

// Packed and made by loops on the host.
Batch made_here(const Dataset& dataset, std::int64_t epoch) {
  const auto samples = dataset.device_samples(torch::kCPU);
  const auto bytes = static_cast<std::int64_t>(samples->packed_bytes());
  const auto packed = torch::zeros({dataset.size(), bytes}, torch::kUInt8);
  Batch batch;
  batch.target = torch::zeros({dataset.size()}, torch::kInt64);
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    PackedSpans place;
    place.bytes = {static_cast<std::byte*>(packed[i].data_ptr()), samples->packed_bytes()};
    if (!samples->makes_targets()) place.label = {batch.target.data_ptr<std::int64_t>() + i, 1};
    samples->pack(i, epoch, place);
  }
  auto made = samples->make(packed);
  batch.input = made.input;
  if (samples->makes_targets()) batch.target = made.target;
  return batch;
}

Batch read_here(const std::shared_ptr<const Dataset>& dataset, std::int64_t epoch) {
  Loader loader(dataset, {dataset->size(), 0, 1, {.shuffle = false}},
                {.batch_size = dataset->size()});
  loader.start_epoch(epoch);
  return loader.next().value();
}

void expect_the_same(const Batch& made, const Batch& read) {
  EXPECT_TRUE(torch::equal(made.input, read.input));
  EXPECT_TRUE(torch::equal(made.target, read.target));
}

TEST(DeviceSamples, ImagesAreThoseThatAreRead) {
  for (const auto& dataset : augmented_datasets()) {
    for (const std::int64_t epoch : {0, 3})
      expect_the_same(made_here(*dataset, epoch), read_here(dataset, epoch));
  }
}

TEST(DeviceSamples, ImagesOfBytesTravelAsBytes) {
  const auto datasets = augmented_datasets();
  constexpr std::size_t most_besides = 64;
  EXPECT_LE(datasets[0]->device_samples(torch::kCPU)->packed_bytes(), 210 + most_besides);
  EXPECT_GE(datasets[3]->device_samples(torch::kCPU)->packed_bytes(), 210 * sizeof(float));
}

TEST(DeviceSamples, MayBeLeftToTheWorkers) {
  const TemporaryFolder folder;
  write_box_npy(numbered_box(9), folder / "pair");
  const auto dataset = std::make_shared<NbodyDataset>(NbodyOptions{
      .file = folder / "pair_data.npy", .mode = BoxMode::device, .crop = 4, .samples = 6});
  Loader loader(dataset, {6, 0, 1, {.shuffle = false}},
                {.batch_size = 6, .makes_on_device = false});
  loader.deliver_to(test_device(0));
  loader.start_epoch(0);
  EXPECT_TRUE(torch::equal(loader.next()->input.cpu(), read_here(dataset, 0).input));
}

TEST(DeviceSamples, ImagesComeThroughTheLoader) {
  for (const auto& dataset : augmented_datasets()) expect_the_same_there(dataset, dataset);
}

class BoxOnADevice : public ::testing::TestWithParam<Rotations> {
 protected:
  void SetUp() override { write_box_npy(numbered_box(19), folder_ / "pair"); }

  std::shared_ptr<const Dataset> open(BoxMode mode) const {
    return std::make_shared<NbodyDataset>(NbodyOptions{.file = folder_ / "pair_data.npy",
                                                       .mode = mode,
                                                       .crop = 11,
                                                       .samples = 60,
                                                       .rotations = GetParam()});
  }

 private:
  TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Rotations, BoxOnADevice,
                         ::testing::Values(Rotations::none, Rotations::tutorial,
                                           Rotations::vector));

TEST_P(BoxOnADevice, HasTheCropsThatAreRead) {
  expect_the_same(made_here(*open(BoxMode::device), 1), read_here(open(BoxMode::lowmem), 1));
}

TEST_P(BoxOnADevice, ComesThroughTheLoader) {
  expect_the_same_there(open(BoxMode::lowmem), open(BoxMode::device));
}

TEST(BoxOnADevice, IsReadFromPlanesThatLieTogether) {
  const TemporaryFolder folder;
  write_box_like(folder / "chunked.h5", numbered_box(20), {.chunk = {1, 7, 7, 7}});
  const auto open = [&](BoxMode mode) {
    return std::make_shared<NbodyDataset>(
        NbodyOptions{.file = folder / "chunked.h5", .mode = mode, .crop = 8, .samples = 9});
  };
  expect_the_same(made_here(*open(BoxMode::device), 1), read_here(open(BoxMode::lowmem), 1));
}

TEST(BoxOnADevice, IsRefusedWhereItDoesNotFit) {
  constexpr std::int64_t needed = 9 * 4 * std::int64_t{1024} * 1024 * 1024;
  const torch::Device device(torch::kCUDA, 1);
  EXPECT_NO_THROW(require_box_fits(1024, needed, device));
  EXPECT_TRUE(
      says(message_of<InputError>([&] { require_box_fits(1024, needed - 1, device); }),
           {"1024^3 cells takes 38654705664 bytes", "cuda:1", "38654705663 free", "mode inmem"}));
}

}  // namespace
}  // namespace kolo::testing
