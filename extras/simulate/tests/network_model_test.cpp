// The time of an all-reduce, against what the papers say and by hand.
#include "network_model.h"

#include <gmock/gmock.h>

#include "kolo/base/error.h"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using ::testing::Property;
using ::testing::Throws;

constexpr double megabyte = 1e6;

NetworkModel simple_network() {
  return {"simple", {1e-6, 10e9}, {10e-6, 1e9}, 5e9};
}

TEST(NetworkModel, RingSendsEveryByteTwiceBesidesTheLatencies) {
  // 16 nodes of one rank: 30 turns, in each of which 1 / 16 of the bytes travels; half of the turns
  // add up.
  const double expected = 30 * (10e-6 + megabyte / 16 / 1e9) + 15 * megabyte / 16 / 5e9;
  EXPECT_DOUBLE_EQ(
      all_reduce_seconds(simple_network(), AllReduceAlgorithm::ring, {16, 1, 1}, megabyte),
      expected);
}

TEST(NetworkModel, TreeIsDoublingForFewBytesAndHalvingForMany) {
  const auto tree = [](double bytes) {
    return all_reduce_seconds(simple_network(), AllReduceAlgorithm::tree, {16, 1, 1}, bytes);
  };
  EXPECT_DOUBLE_EQ(tree(8), 4 * (10e-6 + 8 / 1e9 + 8 / 5e9));
  EXPECT_DOUBLE_EQ(tree(megabyte),
                   2 * (4 * 10e-6 + megabyte * 15 / 16 / 1e9) + megabyte * 15 / 16 / 5e9);
}

TEST(NetworkModel, RanksBeyondAPowerOfTwoCostTwoMoreMessages) {
  const auto tree = [](int ranks) {
    return all_reduce_seconds(simple_network(), AllReduceAlgorithm::tree, {ranks, 1, 1}, 8);
  };
  EXPECT_NEAR(tree(9) - tree(16), 2 * (10e-6 + 8 / 1e9) + 8 / 5e9, 1e-12);
}

TEST(NetworkModel, AFewBytesAmongManyRanksAreForTreesAndManyBytesForRings) {
  const auto seconds = [](AllReduceAlgorithm algorithm, int ranks, double bytes) {
    return all_reduce_seconds(simple_network(), algorithm, {ranks, 1, 1}, bytes);
  };
  EXPECT_LT(seconds(AllReduceAlgorithm::tree, 1024, 1e3),
            seconds(AllReduceAlgorithm::ring, 1024, 1e3));
  EXPECT_LT(seconds(AllReduceAlgorithm::ring, 12, 100 * megabyte),
            seconds(AllReduceAlgorithm::tree, 12, 100 * megabyte));
  // Both approach twice the bytes over the bandwidth.
  EXPECT_NEAR(seconds(AllReduceAlgorithm::ring, 64, 1e9) / (2. * 1e9 / 1e9 + 1e9 / 5e9), 1, .03);
}

TEST(NetworkModel, StagesSaveTrafficBetweenNodes) {
  const RankLayout layout = {512, 16, 16};
  const auto network = simple_network();
  const auto seconds = [&](AllReduceAlgorithm algorithm) {
    return all_reduce_seconds(network, algorithm, layout, megabyte);
  };
  EXPECT_LT(seconds(AllReduceAlgorithm::hierarchical), seconds(AllReduceAlgorithm::ring));
  EXPECT_DOUBLE_EQ(seconds(AllReduceAlgorithm::hierarchical),
                   node_stage_seconds(network, layout, megabyte) +
                       between_nodes_seconds(network, layout, megabyte));
  EXPECT_DOUBLE_EQ(node_stage_seconds(network, layout, megabyte), 2e-6 + 2 * megabyte / 10e9);
  // A node's share of the reduction is done by all its cores.
  EXPECT_DOUBLE_EQ(between_nodes_seconds(network, layout, megabyte),
                   2 * (5 * 10e-6 + megabyte * 31 / 32 / 1e9) + megabyte * 31 / 32 / (16 * 5e9));
}

TEST(NetworkModel, MoreRanksThanCoresTakeTurns) {
  const auto network = simple_network();
  EXPECT_DOUBLE_EQ(node_stage_seconds(network, {4, 4, 2}, megabyte),
                   2 * node_stage_seconds(network, {2, 2, 2}, megabyte));
  EXPECT_EQ(node_stage_seconds(network, {4, 1, 2}, megabyte), 0);
}

TEST(NetworkModel, GrowsWithRanksAndBytesAndIsNothingForOneRank) {
  for (const auto algorithm :
       {AllReduceAlgorithm::ring, AllReduceAlgorithm::tree, AllReduceAlgorithm::hierarchical}) {
    const auto seconds = [&](int ranks, double bytes) {
      return all_reduce_seconds(simple_network(), algorithm, {ranks, 4, 4}, bytes);
    };
    EXPECT_EQ(seconds(1, megabyte), 0);
    double last = 0;
    for (int ranks = 4; ranks <= 16384; ranks *= 2) {
      EXPECT_GT(seconds(ranks, megabyte), last) << algorithm_name(algorithm) << " " << ranks;
      last = seconds(ranks, megabyte);
      EXPECT_GT(seconds(ranks, 2 * megabyte), last);
    }
  }
}

TEST(NetworkModel, NamesAreKnownOrSuggested) {
  for (const auto& name : network_names()) {
    const auto network = network_named(name);
    EXPECT_EQ(network.name, name);
    EXPECT_GT(network.between_nodes.bytes_per_second, 1e8);
    EXPECT_LT(network.between_nodes.latency_seconds, 1e-4);
  }
  // GPUs of a node are nearer to each other than its processors, and the more so the newer.
  const auto seconds = [](const char* name) {
    return all_reduce_seconds(network_named(name), AllReduceAlgorithm::hierarchical, {4, 4, 4},
                              100 * megabyte);
  };
  EXPECT_LT(seconds("nvlink4-8x-infiniband-ndr"), seconds("nvlink3-8x-infiniband-hdr"));
  EXPECT_LT(seconds("nvlink3-8x-infiniband-hdr"), seconds("pcie4-ethernet-100g"));
  EXPECT_LT(seconds("pcie4-ethernet-100g"), seconds("ethernet-100g"));
  EXPECT_THAT([] { (void)network_named("infiniband-hdx"); },
              Throws<InputError>(
                  Property(&InputError::what, HasSubstr("did you mean \"infiniband-hdr\"?"))));
  for (const auto algorithm : {AllReduceAlgorithm::ring, AllReduceAlgorithm::tree})
    EXPECT_EQ(algorithm_named(algorithm_name(algorithm)), algorithm);
  EXPECT_THROW((void)algorithm_named("star"), InputError);
  EXPECT_THROW((void)all_reduce_seconds(simple_network(), AllReduceAlgorithm::ring, {2, 0, 1}, 8),
               Error);
}

TEST(NetworkModel, UnknownLinksAreMissedOnlyWhereTheyAreTaken) {
  NetworkModel network = simple_network();
  network.between_nodes = {};
  const auto seconds = [&](const RankLayout& layout) {
    return all_reduce_seconds(network, AllReduceAlgorithm::hierarchical, layout, megabyte);
  };
  EXPECT_GT(seconds({4, 4, 4}), 0);
  EXPECT_THAT(
      [&] {
        (void)seconds({8, 4, 4});
      },
      Throws<InputError>(Property(&InputError::what, HasSubstr("between 2 nodes"))));
  network = simple_network();
  network.within_node = {};
  EXPECT_GT(seconds({4, 1, 4}), 0);
  EXPECT_THROW((void)seconds({4, 4, 4}), InputError);
}

}  // namespace
}  // namespace kolo
