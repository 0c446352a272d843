#include "kolo/data/loader.h"

#include <future>
#include <latch>
#include <set>

#include "data/numbered_dataset.h"
#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using Shape = std::vector<std::int64_t>;

std::vector<Batch> drain(Loader& loader) {
  std::vector<Batch> batches;
  while (auto batch = loader.next()) batches.push_back(std::move(*batch));
  return batches;
}

std::vector<std::int64_t> indices_of(const std::vector<Batch>& batches) {
  std::vector<std::int64_t> indices;
  for (const auto& batch : batches) {
    indices.insert(indices.end(), batch.indices.begin(), batch.indices.end());
  }
  return indices;
}

class LoaderWithWorkers : public ::testing::TestWithParam<int> {
 protected:
  LoaderOptions options(std::int64_t batch_size, int prefetch = 3, bool drop_last = false) const {
    return {batch_size, GetParam(), prefetch, drop_last};
  }
};
INSTANTIATE_TEST_SUITE_P(Workers, LoaderWithWorkers, ::testing::Range(0, 5));

TEST_P(LoaderWithWorkers, DeliversEverySampleInTheSamplersOrder) {
  const auto dataset = std::make_shared<NumberedDataset>(1003);
  dataset->before = [](std::int64_t index) {
    if (index % 97 == 0) std::this_thread::yield();  // workers finish out of order
  };
  DistributedSampler sampler(1003, 1, 2, {true, 4});
  Loader loader(dataset, sampler, options(10));
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    loader.start_epoch(epoch);
    sampler.start_epoch(epoch);
    std::int64_t count = 0;
    while (const auto batch = loader.next()) {
      ++count;
      EXPECT_EQ(batch->indices, sampler.next(10));
      EXPECT_EQ(batch->position, sampler.position());
      EXPECT_TRUE(holds_its_samples(*batch, epoch));
    }
    EXPECT_EQ(count, 51);
    EXPECT_EQ(count, loader.batches());
    EXPECT_FALSE(loader.next());
  }
}

TEST_P(LoaderWithWorkers, KeepsOrDropsThePartialBatch) {
  const auto dataset = std::make_shared<NumberedDataset>(10);
  Loader keeping(dataset, {10, 0, 1}, options(4));
  keeping.start_epoch(0);
  const auto batches = drain(keeping);
  ASSERT_EQ(batches.size(), 3U);
  EXPECT_EQ(keeping.batches(), 3);
  EXPECT_EQ(batches[2].input.sizes(), (Shape{2, 3, 1}));
  EXPECT_EQ(batches[2].target.sizes(), (Shape{2}));
  EXPECT_EQ(batches[2].position, 10);
  EXPECT_TRUE(batches[2].input.is_contiguous());
  EXPECT_TRUE(holds_its_samples(batches[2], 0));

  Loader dropping(dataset, {10, 0, 1}, options(4, 3, true));
  dropping.start_epoch(0);
  EXPECT_EQ(drain(dropping).size(), 2U);
  EXPECT_EQ(dropping.batches(), 2);
  dropping.start_epoch(0, 8);
  EXPECT_EQ(dropping.batches(8), 0);
  EXPECT_FALSE(dropping.next());
}

TEST_P(LoaderWithWorkers, GoesOnInMidEpoch) {
  const auto dataset = std::make_shared<NumberedDataset>(100);
  Loader loader(dataset, {100, 2, 3, {true, 1}}, options(7));
  loader.start_epoch(5);
  const auto whole = drain(loader);
  for (std::size_t done = 0; done < whole.size(); ++done) {
    const auto position = whole[done].position;
    Loader resumed(dataset, {100, 2, 3, {true, 1}}, options(7));
    resumed.start_epoch(5, position);
    const auto rest = drain(resumed);
    EXPECT_EQ(static_cast<std::int64_t>(rest.size()), resumed.batches(position));
    EXPECT_EQ(indices_of(rest),
              indices_of({whole.begin() + static_cast<std::ptrdiff_t>(done) + 1, whole.end()}));
  }
}

TEST_P(LoaderWithWorkers, ANewEpochLeavesTheOneUnderWay) {
  const auto dataset = std::make_shared<NumberedDataset>(60);
  Loader loader(dataset, {60, 0, 1, {true, 1}}, options(4));
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    loader.start_epoch(epoch);
    for (int i = 0; i < epoch % 5; ++i)
      EXPECT_TRUE(holds_its_samples(loader.next().value(), epoch));
  }
  loader.start_epoch(20);
  EXPECT_EQ(drain(loader).size(), 15U);
}

TEST_P(LoaderWithWorkers, WhatTheConsumerHoldsIsNotOverwritten) {
  const auto dataset = std::make_shared<NumberedDataset>(200);
  Loader loader(dataset, {200, 0, 1, {false}}, options(4, 2));
  loader.start_epoch(1);
  std::vector<Batch> held;
  std::vector<torch::Tensor> views;  // of batches whose own tensors are gone
  for (int i = 0; auto batch = loader.next(); ++i) {
    if (i % 3 == 0)
      held.push_back(std::move(*batch));
    else if (i % 3 == 1)
      views.push_back(batch->input.select(1, 0).squeeze(1));
  }
  for (const auto& batch : held) EXPECT_TRUE(holds_its_samples(batch, 1));
  for (std::size_t i = 0; i < views.size(); ++i) {
    const auto first = static_cast<double>(4 * (3 * i + 1));
    EXPECT_TRUE(torch::equal(views[i], torch::arange(first, first + 4, torch::kFloat32)));
  }
}

TEST_P(LoaderWithWorkers, UsesMemoryAgainThatNobodyHolds) {
  const auto dataset = std::make_shared<NumberedDataset>(4000);
  Loader loader(dataset, {4000, 0, 1}, options(4, 2));
  loader.start_epoch(0);
  std::set<const void*> places;
  while (auto batch = loader.next()) {
    // Whatever a consumer does to its tensor must not stick to the memory.
    EXPECT_FALSE(batch->input.requires_grad());
    EXPECT_EQ(batch->input.dim(), 3);
    places.insert(batch->input.data_ptr());
    batch->input.unsqueeze_(0).requires_grad_(true);
  }
  EXPECT_LE(places.size(), 4U);
}

TEST_P(LoaderWithWorkers, KeepsWhatBackwardNeeds) {
  const auto dataset = std::make_shared<NumberedDataset>(80);
  Loader loader(dataset, {80, 0, 1}, options(4, 1));
  loader.start_epoch(0);
  const auto weight = torch::ones({3, 1}, torch::requires_grad());
  torch::Tensor loss = torch::zeros({});
  double expected = 0;
  while (auto batch = loader.next()) {
    expected += batch->input.sum().item<double>();
    loss = loss + (batch->input * weight).sum();
  }
  loss.backward();
  EXPECT_EQ(weight.grad().sum().item<double>(), expected);
}

TEST_P(LoaderWithWorkers, LoadsUnderInferenceModeForLaterTraining) {
  const auto dataset = std::make_shared<NumberedDataset>(8);
  Loader loader(dataset, {8, 0, 1}, options(8, 1));
  {
    const c10::InferenceMode guard;
    loader.start_epoch(0);
    EXPECT_TRUE(loader.next());
  }
  loader.start_epoch(1);
  const auto batch = loader.next();
  EXPECT_FALSE(batch->input.is_inference());
}

TEST_P(LoaderWithWorkers, DeliversTargetsOfNumbers) {
  const auto dataset = std::make_shared<NumberedDataset>(6, false);
  Loader loader(dataset, {6, 0, 1, {false}}, options(6));
  loader.start_epoch(0);
  const auto batch = loader.next();
  EXPECT_EQ(batch->target.dtype(), torch::kFloat32);
  EXPECT_TRUE(
      torch::equal(batch->target, torch::arange(6.0, torch::kFloat32).view({6, 1}).repeat({1, 2})));
}

TEST_P(LoaderWithWorkers, RethrowsWhatTheDatasetThrowsAndGoesOnAfterIt) {
  const auto dataset = std::make_shared<NumberedDataset>(100);
  std::atomic<bool> broken = true;
  dataset->before = [&](std::int64_t index) {
    if (index == 57 && broken) throw InputError("sample 57 is torn");
  };
  Loader loader(dataset, {100, 0, 1, {false}}, options(10));
  loader.start_epoch(0);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(loader.next());  // what comes before it is delivered
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(says(message_of<InputError>([&] { (void)loader.next(); }),
                     {"sample 57 is torn; remove or replace it"}));
  }
  broken = false;
  loader.start_epoch(1);
  EXPECT_EQ(drain(loader).size(), 10U);
  broken = true;
  loader.start_epoch(2);
  (void)loader.next();  // and is destroyed with the error still to come
}

TEST_P(LoaderWithWorkers, IsDestroyedAtAnyMoment) {
  const auto dataset = std::make_shared<NumberedDataset>(10000);
  for (int taken = 0; taken < 20; ++taken) {
    Loader loader(dataset, {10000, 0, 1}, options(16));
    if (taken == 0) continue;
    loader.start_epoch(0);
    for (int i = 1; i < taken; ++i) EXPECT_TRUE(loader.next());
  }
}

TEST_P(LoaderWithWorkers, WorksForAnEmptyShare) {
  const auto dataset = std::make_shared<NumberedDataset>(2);
  Loader loader(dataset, {2, 3, 4, {false, 0, Padding::none}}, options(4));
  loader.start_epoch(0);
  EXPECT_EQ(loader.batches(), 0);
  EXPECT_FALSE(loader.next());
}

TEST(Loader, LoadsNoFurtherAheadThanAsked) {
  const auto dataset = std::make_shared<NumberedDataset>(1000);
  std::atomic<int> reads = 0;
  dataset->before = [&](std::int64_t) { ++reads; };
  Loader loader(dataset, {1000, 0, 1}, {10, 2, 3});
  loader.start_epoch(0);
  for (int taken = 1; taken <= 100; ++taken) {
    EXPECT_TRUE(loader.next());
    EXPECT_LE(reads, 10 * (taken + 3));
  }
}

TEST(Loader, StopsAmidABatch) {
  const auto dataset = std::make_shared<NumberedDataset>(1000000);
  std::latch reading(1);
  std::promise<void> go_on;
  auto may_go_on = go_on.get_future().share();
  std::atomic<int> reads = 0;
  dataset->before = [&](std::int64_t) {
    if (reads++ == 0) {
      reading.count_down();
      may_go_on.wait();
    }
  };
  auto loader = std::make_unique<Loader>(dataset, DistributedSampler(1000000, 0, 1),
                                         LoaderOptions{1000000, 1, 1});
  loader->start_epoch(0);
  reading.wait();
  loader->start_epoch(1, 1000000);  // an epoch without batches
  go_on.set_value();
  EXPECT_FALSE(loader->next());
  loader.reset();
  EXPECT_EQ(reads, 1);
}

TEST(Loader, RejectsItsArguments) {
  const auto dataset = std::make_shared<NumberedDataset>(10);
  const auto rejection = [&](LoaderOptions options) {
    return message_of<InputError>([&] { Loader(dataset, {10, 0, 1}, options); });
  };
  EXPECT_TRUE(says(rejection({0}), {"batch size is 0", "expected 1"}));
  EXPECT_TRUE(says(rejection({1, -1}), {"workers is -1", "expected 0 to"}));
  EXPECT_TRUE(says(rejection({1, 1, 0}), {"prefetch is 0"}));
  EXPECT_TRUE(says(message_of<Error>([&] {
                     Loader(dataset, {11, 0, 1}, {});
                   }),
                   {"10 samples", "for 11"}));
  Loader loader(dataset, {10, 0, 1}, {});
  EXPECT_TRUE(says(message_of<Error>([&] { (void)loader.next(); }), {"before start_epoch"}));
}

}  // namespace
}  // namespace kolo::testing
