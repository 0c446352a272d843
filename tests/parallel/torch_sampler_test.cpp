#include "kolo/parallel/torch_sampler.h"

#include <map>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <torch/data.h>
#include <torch/serialize.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "kolo/base/error.h"
#include "kolo/comm/threads.h"
#include "kolo/parallel/initialize.h"
#include "support/errors.h"

namespace kolo {
namespace {

using Samples = std::vector<std::int64_t>;

// A dataset whose samples are their own indices.
struct Indices : torch::data::datasets::Dataset<Indices, std::int64_t> {
  explicit Indices(std::size_t count) : samples(count) {}
  std::int64_t get(std::size_t index) override { return static_cast<std::int64_t>(index); }
  torch::optional<std::size_t> size() const override { return samples; }
  std::size_t samples;
};

auto loader_of(std::size_t size, const TorchSampler& sampler, std::size_t batch,
               std::size_t workers = 0) {
  return torch::data::make_data_loader(Indices(size), sampler,
                                       torch::data::DataLoaderOptions(batch).workers(workers));
}

template <typename Loader>
Samples draw_epoch(Loader& loader, int batches = -1) {
  Samples samples;
  for (const auto& batch : *loader) {
    samples.insert(samples.end(), batch.begin(), batch.end());
    if (--batches == 0) break;
  }
  return samples;
}

TEST(TorchSampler, ANegativeSizeIsNamed) {
  const auto minus_one = static_cast<std::size_t>(-1);
  EXPECT_THAT(testing::message_of<InputError>([&] { TorchSampler(minus_one, 0, 1); }),
              ::testing::HasSubstr("the size of the dataset is 18446744073709551615 (-1 before"));
  TorchSampler sampler(4, 0, 1);
  EXPECT_THROW(sampler.reset(minus_one), InputError);
  EXPECT_THROW((void)sampler.next(minus_one), InputError);
}

TEST(TorchSampler, EverySampleIsDrawnOnceAnEpochInAnotherOrderEachTime) {
  for (const std::size_t workers : {0, 2}) {
    std::vector<TorchSampler> samplers;
    for (int rank = 0; rank < 3; ++rank)
      samplers.emplace_back(20, rank, 3, SamplerOptions{true, 7, Padding::none});
    std::vector<decltype(loader_of(20, samplers[0], 3))> loaders;
    for (const auto& sampler : samplers) loaders.push_back(loader_of(20, sampler, 3, workers));
    std::vector<Samples> orders;
    for (int epoch = 0; epoch < 3; ++epoch) {
      std::map<std::int64_t, int> counts;
      for (std::size_t rank = 0; rank < 3; ++rank) {
        const auto samples = draw_epoch(loaders[rank]);
        EXPECT_EQ(static_cast<std::int64_t>(samples.size()), samplers[rank].length());
        EXPECT_EQ(samplers[rank].epoch(), epoch);
        for (const auto sample : samples) ++counts[sample];
        if (rank == 0) orders.push_back(samples);
      }
      EXPECT_EQ(counts.size(), 20U);
      for (const auto& [sample, count] : counts) EXPECT_EQ(count, 1) << "sample " << sample;
    }
    EXPECT_NE(orders[0], orders[1]);
    EXPECT_NE(orders[1], orders[2]);
  }
}

TEST(TorchSampler, GoesOnWhereItWasSaved) {
  const TorchSampler sampler(40, 1, 2, {true, 5});
  auto loader = loader_of(40, sampler, 4);
  (void)draw_epoch(loader);
  Samples whole = draw_epoch(loader, 2);
  std::stringstream file;
  torch::serialize::OutputArchive out;
  sampler.save(out);
  out.save_to(file);

  for (const bool is_reset : {true, false}) {
    TorchSampler resumed(40, 1, 2, {true, 5});
    torch::serialize::InputArchive in;
    file.seekg(0);
    in.load_from(file);
    resumed.load(in);
    EXPECT_EQ(resumed.epoch(), 1);
    EXPECT_EQ(resumed.position(), 16);
    DistributedSampler reference(40, 1, 2, {true, 5});
    reference.start_epoch(1, 16);
    if (is_reset) {
      auto again = loader_of(40, resumed, 4);
      EXPECT_EQ(draw_epoch(again), reference.next(1000));
      reference.start_epoch(2);
      EXPECT_EQ(draw_epoch(again), reference.next(1000));
    } else {
      const auto next = resumed.next(4).value();
      EXPECT_EQ(Samples(next.begin(), next.end()), reference.next(4));
    }
  }
}

TEST(TorchSampler, StartsTheEpochThatItIsTold) {
  TorchSampler sampler(30, Communicator::solo(), {true, 1});
  sampler.set_epoch(4, 10);
  auto loader = loader_of(30, sampler, 7);
  DistributedSampler reference(30, 0, 1, {true, 1});
  reference.start_epoch(4, 10);
  EXPECT_EQ(draw_epoch(loader), reference.next(100));
  reference.start_epoch(5);
  EXPECT_EQ(draw_epoch(loader), reference.next(100));
  EXPECT_THROW(sampler.set_epoch(-1), std::exception);
  sampler.reset(3);
  EXPECT_EQ(sampler.length(), 3);
}

// Ranks draw other random numbers (dropout, noise) beside the same order of samples.
TEST(SeedRanks, EveryRankHasRandomNumbersOfItsOwn) {
  std::vector<std::uint64_t> seeds(5), again(5);
  for (auto* const of_run : {&seeds, &again}) {
    run_as_threads(5, [&](const Communicator& communicator) {
      (*of_run)[static_cast<std::size_t>(communicator.rank())] = seed_ranks(communicator, 7);
    });
  }
  EXPECT_EQ(seeds, again);
  EXPECT_EQ(std::set(seeds.begin(), seeds.end()).size(), seeds.size());
  torch::manual_seed(7);
  const auto expected = torch::rand({4});
  EXPECT_EQ(seed_ranks(Communicator::solo(), 7), 7U);
  EXPECT_TRUE(torch::rand({4}).equal(expected)) << "rank 0 is as one rank alone";
}

}  // namespace
}  // namespace kolo
