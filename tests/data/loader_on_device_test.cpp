// Batches that the loader takes to a device. The simulated one copies as late as it may, so
// memory that is used again too early, or a batch that nobody waits for, shows in the numbers.
#include <atomic>

#include <gmock/gmock.h>

#include "data/numbered_dataset.h"
#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/test_devices.h"

namespace kolo::testing {
namespace {

void expect_samples(Batch batch, std::int64_t epoch) {
  ASSERT_EQ(batch.input.device(), test_device(0));
  ASSERT_EQ(batch.target.device(), test_device(0));
  batch.input = batch.input.cpu();
  batch.target = batch.target.cpu();
  EXPECT_TRUE(holds_its_samples(batch, epoch));
}

class LoaderOnADevice : public ::testing::TestWithParam<int> {
 protected:
  static constexpr std::int64_t batch_size = 4;

  Loader make(std::int64_t samples = 30) {
    dataset_ = std::make_shared<NumberedDataset>(samples);
    dataset_->before = [this](std::int64_t index) {
      if (index == broken_) throw InputError("a sample is torn");
    };
    return Loader(dataset_, {samples, 0, 1, {true, 3}}, {batch_size, GetParam(), 1});
  }

  std::shared_ptr<NumberedDataset> dataset_;
  std::atomic<std::int64_t> broken_ = -1;
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
  broken_ = order.at(4).at(1);
  loader.start_epoch(0);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(loader.next().value().indices, order[i]);
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(message_of<InputError>([&] { (void)loader.next(); }),
                ::testing::StartsWith("a sample is torn; remove or replace it"));
  broken_ = -1;
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
  std::int64_t reads = 0;
  dataset->before = [&](std::int64_t) { ++reads; };
  Loader loader(dataset, {100, 0, 1}, {10, 0, 1});
  loader.deliver_to(test_device(0));
  loader.start_epoch(0);
  for (std::int64_t taken = 1; taken <= 10; ++taken) {
    EXPECT_EQ(loader.next().value().position, 10 * taken);  // not that of what is ahead
    EXPECT_EQ(reads, std::min<std::int64_t>(10 * (taken + 2), 100));
  }
}

}  // namespace
}  // namespace kolo::testing
