// Batches that the loader takes to a device. The simulated one copies as late as it may, so
// memory that is used again too early, or a batch that nobody waits for, shows in the numbers.
#include <atomic>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/data/loader.h"
#include "support/errors.h"
#include "support/test_devices.h"

namespace kolo::testing {
namespace {

// Samples of three numbers: their index, the epoch, their index.
class NumberedDataset final : public Dataset {
 public:
  explicit NumberedDataset(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  const SampleLayout& layout() const override { return layout_; }
  void read(std::int64_t index, std::int64_t epoch, const SamplePlace& place) const override {
    check_read(index, place, 3, 1);
    if (index == broken) throw InputError("a sample is torn");
    ++reads;
    place.input[0] = place.input[2] = static_cast<float>(index);
    place.input[1] = static_cast<float>(epoch);
    place.label[0] = index;
  }
  std::atomic<std::int64_t> broken = -1;
  mutable std::atomic<std::int64_t> reads = 0;

 private:
  SampleLayout layout_{{3}, 1 << 20, {}};
  std::int64_t size_;
};

void expect_samples(const Batch& batch, std::int64_t epoch) {
  ASSERT_EQ(batch.input.device(), test_device(0));
  ASSERT_EQ(batch.target.device(), test_device(0));
  const auto indices = torch::tensor(batch.indices, torch::kInt64);
  const auto numbers = indices.to(torch::kFloat32);
  const auto epochs = torch::full_like(numbers, static_cast<double>(epoch));
  EXPECT_TRUE(torch::equal(batch.input.cpu(), torch::stack({numbers, epochs, numbers}, 1)));
  EXPECT_TRUE(torch::equal(batch.target.cpu(), indices));
}

class LoaderOnADevice : public ::testing::TestWithParam<int> {
 protected:
  static constexpr std::int64_t batch_size = 4;

  Loader make(std::int64_t samples = 30) {
    dataset_ = std::make_shared<NumberedDataset>(samples);
    return Loader(dataset_, {samples, 0, 1, {true, 3}}, {batch_size, GetParam(), 1});
  }
  NumberedDataset& dataset() { return *dataset_; }

 private:
  std::shared_ptr<NumberedDataset> dataset_;
};
INSTANTIATE_TEST_SUITE_P(Workers, LoaderOnADevice, ::testing::Values(0, 1, 3));

TEST_P(LoaderOnADevice, DeliversTheHostsBatches) {
  Loader here = make(), there = make();
  there.deliver_to(test_device(0));
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    here.start_epoch(epoch, 6);
    there.start_epoch(epoch, 6);
    while (const auto expected = here.next()) {
      const auto batch = there.next();
      ASSERT_TRUE(batch);
      EXPECT_EQ(batch->indices, expected->indices);
      EXPECT_EQ(batch->position, expected->position);
      expect_samples(*batch, epoch);
    }
    EXPECT_FALSE(there.next());
    EXPECT_FALSE(there.next());
  }
}

TEST_P(LoaderOnADevice, WhatTheConsumerHoldsStays) {
  Loader loader = make(60);
  loader.deliver_to(test_device(0));
  loader.start_epoch(2);
  std::vector<Batch> held;
  while (auto batch = loader.next()) held.push_back(std::move(*batch));
  EXPECT_EQ(held.size(), 15U);
  for (const auto& batch : held) expect_samples(batch, 2);
}

TEST_P(LoaderOnADevice, WhatTheDatasetThrowsComesInItsPlace) {
  Loader loader = make();
  loader.deliver_to(test_device(0));
  loader.start_epoch(0);
  std::vector<std::vector<std::int64_t>> order;
  while (const auto batch = loader.next()) order.push_back(batch->indices);
  dataset().broken = order.at(4).at(1);
  loader.start_epoch(0);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(loader.next().value().indices, order[i]);
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(message_of<InputError>([&] { (void)loader.next(); }),
                ::testing::StartsWith("a sample is torn; remove or replace it"));
  dataset().broken = -1;
  loader.start_epoch(1);
  expect_samples(loader.next().value(), 1);
}

// As when a step throws, or a run is stopped.
TEST_P(LoaderOnADevice, IsLeftAtAnyMoment) {
  for (int taken = 0; taken < 8; ++taken) {
    Loader loader = make();
    loader.deliver_to(test_device(0));
    loader.start_epoch(0);
    for (int i = 0; i < taken; ++i) expect_samples(loader.next().value(), 0);
    if (taken % 2 == 0) continue;  // destroyed with copies under way
    loader.start_epoch(1);
    for (int i = 0; i < 8; ++i) expect_samples(loader.next().value(), 1);
  }
}

TEST_P(LoaderOnADevice, MayServeBothByTurns) {
  Loader loader = make();
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    loader.deliver_to(epoch % 2 == 0 ? test_device(0) : torch::Device(torch::kCPU));
    loader.start_epoch(epoch);
    if (epoch % 2 == 0)
      expect_samples(loader.next().value(), epoch);
    else
      EXPECT_TRUE(loader.next().value().input.is_cpu());
  }
}

TEST_P(LoaderOnADevice, LeavesNoTraceOfInferenceMode) {
  Loader loader = make();
  loader.deliver_to(test_device(0));
  {
    const c10::InferenceMode guard;
    loader.start_epoch(0);
    EXPECT_FALSE(loader.next().value().input.is_inference());
  }
}

TEST(LoaderOnADevice, CopiesTwoBatchesAhead) {
  const auto dataset = std::make_shared<NumberedDataset>(100);
  Loader loader(dataset, {100, 0, 1}, {10, 0, 1});
  loader.deliver_to(test_device(0));
  loader.start_epoch(0);
  for (std::int64_t taken = 1; taken <= 10; ++taken) {
    EXPECT_EQ(loader.next().value().position, 10 * taken);  // not that of what is ahead
    EXPECT_EQ(dataset->reads, std::min<std::int64_t>(10 * (taken + 2), 100));
  }
}

}  // namespace
}  // namespace kolo::testing
