#include "kolo/sampling/sampler.h"

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <span>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using ::testing::ElementsAreArray;
using Samples = std::vector<std::int64_t>;
constexpr auto all = std::numeric_limits<std::int64_t>::max();

SamplerOptions in_order(Padding padding = Padding::repeat) {
  return {false, 0, padding};
}

Samples draw(std::int64_t size, int rank, int ranks, const SamplerOptions& options,
             std::int64_t epoch = 0, std::int64_t position = 0) {
  DistributedSampler sampler(size, rank, ranks, options);
  sampler.start_epoch(epoch, position);
  auto samples = sampler.next(all);
  EXPECT_EQ(static_cast<std::int64_t>(samples.size()), sampler.length(position));
  EXPECT_THAT(sampler.next(1), IsEmpty());
  return samples;
}

// Samples that all ranks together draw from a position on, in the order in which they draw it when
// each takes one in turn.
Samples draw_together(std::int64_t size, int ranks, const SamplerOptions& options,
                      std::int64_t epoch, std::int64_t position) {
  std::vector<Samples> each;
  for (int rank = 0; rank < ranks; ++rank) {
    each.push_back(draw(size, rank, ranks, options, epoch, position));
  }
  Samples together;
  for (std::size_t round = 0; round < each[0].size(); ++round) {
    for (const auto& samples : each) {
      if (round < samples.size()) together.push_back(samples[round]);
    }
  }
  return together;
}

TEST(Sampler, DealsOutLikeTorch) {
  EXPECT_THAT(draw(10, 0, 3, in_order()), ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(draw(10, 1, 3, in_order()), ElementsAre(1, 4, 7, 0));
  EXPECT_THAT(draw(10, 2, 3, in_order()), ElementsAre(2, 5, 8, 1));
  EXPECT_THAT(draw(10, 0, 3, in_order(Padding::drop)), ElementsAre(0, 3, 6));
  EXPECT_THAT(draw(10, 1, 3, in_order(Padding::drop)), ElementsAre(1, 4, 7));
  EXPECT_THAT(draw(10, 2, 3, in_order(Padding::drop)), ElementsAre(2, 5, 8));
  EXPECT_THAT(draw(10, 0, 3, in_order(Padding::none)), ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(draw(10, 1, 3, in_order(Padding::none)), ElementsAre(1, 4, 7));
  EXPECT_THAT(draw(10, 2, 3, in_order(Padding::none)), ElementsAre(2, 5, 8));
}

TEST(Sampler, DealsOutFewerSamplesThanRanksLikeTorch) {
  for (int rank = 0; rank < 7; ++rank) {
    EXPECT_THAT(draw(3, rank, 7, in_order()), ElementsAre(rank % 3));
    EXPECT_THAT(draw(3, rank, 7, in_order(Padding::drop)), IsEmpty());
    EXPECT_EQ(draw(3, rank, 7, in_order(Padding::none)).size(), rank < 3 ? 1U : 0U);
    EXPECT_THAT(draw(0, rank, 7, in_order()), IsEmpty());
  }
}

TEST(Sampler, ShufflesLikeTorch) {
  EXPECT_THAT(draw(10, 0, 1, {true, 0}), ElementsAre(4, 1, 7, 5, 3, 9, 0, 8, 6, 2));
  std::mt19937_64 random(1);
  for (int i = 0; i < 20; ++i) {
    const auto size = static_cast<std::int64_t>(random() % 3000);
    const auto seed = i < 10 ? random() % 1000 : random() >> 1;
    const auto epoch = static_cast<std::int64_t>(random() % 100);
    const auto reference = torch::randperm(
        size, at::detail::createCPUGenerator(seed + static_cast<std::uint64_t>(epoch)),
        torch::kInt64);
    const std::span<const std::int64_t> expected(reference.data_ptr<std::int64_t>(),
                                                 static_cast<std::size_t>(size));
    EXPECT_THAT(draw(size, 0, 1, {true, seed}, epoch), ElementsAreArray(expected));
  }
}

TEST(Sampler, RanksTogetherDrawEverySample) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 200; ++i) {
    const auto size = static_cast<std::int64_t>(random() % 60);
    const auto ranks = static_cast<int>(1 + random() % 9);
    for (const auto padding : {Padding::repeat, Padding::drop, Padding::none}) {
      SCOPED_TRACE(::testing::Message() << size << " samples, " << ranks << " ranks");
      std::map<std::int64_t, int> counts;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto samples = draw(size, rank, ranks, {true, 5, padding}, i);
        const auto share = static_cast<std::int64_t>(samples.size());
        if (padding == Padding::repeat) {
          EXPECT_EQ(share, (size + ranks - 1) / ranks);
        } else if (padding == Padding::drop) {
          EXPECT_EQ(share, size / ranks);
        }
        for (const auto sample : samples) ++counts[sample];
      }
      const auto distinct = static_cast<std::int64_t>(counts.size());
      EXPECT_EQ(distinct, padding == Padding::drop ? size / ranks * ranks : size);
      if (padding != Padding::repeat) {
        for (const auto& [sample, count] : counts) EXPECT_EQ(count, 1) << "sample " << sample;
      }
    }
  }
}

TEST(Sampler, TheSameRanksGoOnFromAPositionAsIfNothingHadHappened) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; ++i) {
    const auto size = static_cast<std::int64_t>(1 + random() % 60);
    const auto ranks = static_cast<int>(1 + random() % 9);
    const auto steps = random() % 10;
    const auto batch = static_cast<std::int64_t>(1 + random() % 5);
    const SamplerOptions options{true, 9, static_cast<Padding>(random() % 3)};
    std::int64_t position_of_rank0 = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      DistributedSampler sampler(size, rank, ranks, options);
      sampler.start_epoch(i);
      for (std::uint64_t step = 0; step < steps; ++step) (void)sampler.next(batch);
      if (rank == 0) position_of_rank0 = sampler.position();
      EXPECT_EQ(sampler.position(), position_of_rank0);
      const auto resumed = draw(size, rank, ranks, options, i, sampler.position());
      EXPECT_EQ(resumed, sampler.next(all));
    }
  }
}

TEST(Sampler, OtherRanksGoOnWithTheSameRemainingSamples) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 200; ++i) {
    const auto size = static_cast<std::int64_t>(1 + random() % 60);
    const SamplerOptions options{true, 9, static_cast<Padding>(random() % 3)};
    const auto before = static_cast<int>(1 + random() % 9),
               after = static_cast<int>(1 + random() % 9);
    DistributedSampler sampler(size, 0, before, options);
    sampler.start_epoch(i);
    (void)sampler.next(static_cast<std::int64_t>(random() % 10));

    const auto whole = draw(size, 0, 1, {true, 9}, i);
    const auto drawn = std::min(sampler.position(), size);
    const Samples rest(whole.begin() + drawn, whole.end());
    auto together = draw_together(size, after, options, i, sampler.position());
    const auto left = static_cast<std::int64_t>(rest.size());
    if (options.padding == Padding::drop) {
      EXPECT_THAT(together, ElementsAreArray(rest.begin(), rest.begin() + left / after * after));
    } else {
      ASSERT_GE(together.size(), rest.size());
      if (options.padding == Padding::none) {
        EXPECT_EQ(together.size(), rest.size());
      }
      EXPECT_LT(together.size(), rest.size() + static_cast<std::size_t>(after));
      together.resize(rest.size());
      EXPECT_EQ(together, rest);
    }
  }
}

TEST(Sampler, AFinishedEpochStaysFinishedForAnyRanks) {
  DistributedSampler sampler(10, 2, 4);
  sampler.start_epoch(3);
  (void)sampler.next(all);
  EXPECT_EQ(sampler.position(), 12);  // two were drawn twice
  for (int ranks = 1; ranks < 6; ++ranks) {
    EXPECT_THAT(draw(10, 0, ranks, {}, 3, sampler.position()), IsEmpty());
  }
}

TEST(Sampler, SeveralRanksInOneDrawWhatEachOfThemWould) {
  constexpr std::int64_t batch = 3;
  for (const auto padding : {Padding::repeat, Padding::drop, Padding::none}) {
    for (const std::int64_t size : {5, 24, 31, 100}) {
      const SamplerOptions options{true, 11, padding};
      DistributedSampler together(size, 2, 6, options, 3);
      together.start_epoch(1);
      std::vector<DistributedSampler> each;
      for (int rank = 2; rank < 5; ++rank) each.emplace_back(size, rank, 6, options).start_epoch(1);
      EXPECT_EQ(together.length(), each[0].length());
      for (bool is_over = false; !is_over;) {
        const auto shares = together.part_sizes_of_next(batch);
        Samples expected, counts;
        for (auto& sampler : each) {
          const auto samples = sampler.next(batch);
          counts.push_back(static_cast<std::int64_t>(samples.size()));
          expected.insert(expected.end(), samples.begin(), samples.end());
        }
        EXPECT_EQ(shares, counts);
        EXPECT_EQ(together.next(batch), expected);
        EXPECT_EQ(together.position(), each[0].position());
        is_over = expected.empty();
      }
    }
  }
}

TEST(Sampler, RejectsItsArguments) {
  EXPECT_TRUE(says(message_of<Error>([] { DistributedSampler(10, 2, 4, {}, 3); }),
                   {"3 ranks from rank 2 of 4 on, expected 1 to 2"}));
  EXPECT_TRUE(says(message_of<Error>([] { DistributedSampler(10, 3, 3); }), {"rank 3 of 3"}));
  EXPECT_TRUE(says(message_of<Error>([] { DistributedSampler(10, -1, 3); }), {"rank -1"}));
  EXPECT_TRUE(says(message_of<Error>([] { DistributedSampler(10, 0, 0); }), {"of 0"}));
  EXPECT_TRUE(says(message_of<Error>([] { DistributedSampler(-1, 0, 1); }), {"-1 samples"}));
  EXPECT_TRUE(says(message_of<InputError>([] { DistributedSampler(std::int64_t{1} << 32, 0, 1); }),
                   {"at most 4294967295"}));
  DistributedSampler sampler(10, 0, 1);
  EXPECT_TRUE(says(message_of<Error>([&] { sampler.start_epoch(0, -1); }), {"position -1"}));
  EXPECT_THAT(sampler.next(5), IsEmpty());  // no epoch has started
}

}  // namespace
}  // namespace kolo::testing
