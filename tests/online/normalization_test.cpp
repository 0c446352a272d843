#include <limits>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "online/linear_task.h"
#include "support/rank_test.h"

namespace kolo::testing {
namespace {

// Cells whose inputs are far from 0, of different sizes, and differ by rank: a network doesn't learn
// from them as they are.
Cells cells_far_from_0(std::mt19937& random, int count, const Communicator& ranks) {
  Cells cells(random, count);
  for (std::size_t i = 0; i < cells.a.size(); ++i) {
    cells.a[i] = 1e4 + 100 * cells.a[i] + ranks.rank();
    cells.b[i] *= 1e-3;
    cells.y[i] = cells.a[i] - 2e5 * cells.b[i];
  }
  return cells;
}

// Tells whether the network has learnt them, by two cells whose answers are known.
void expect_learnt(OnlineNetwork& network) {
  std::vector<double> a = {1e4, 1e4 + 50}, b = {5e-4, 0}, y(2);
  network.infer(std::vector{Array(a.data(), {2}), Array(b.data(), {2})},
                std::vector{Array(y.data(), {2})});
  EXPECT_NEAR(y[0], 1e4 - 100, 5);
  EXPECT_NEAR(y[1], 1e4 + 50, 5);
}

RANK_TEST(OnlineNormalization, IsByAllRanksSamples) {
  const auto config =
      linear_config({"normalization.inputs=channels", "normalization.targets=channels",
                     "normalization.freeze_after=500"});
  OnlineNetwork network(communicator, config);
  auto random = random_of(communicator);
  for (int step = 1; step <= 300; ++step) {
    auto cells = cells_far_from_0(random, 16, communicator);
    network.push(cells.inputs(), cells.targets());
    network.tick(step);
  }
  expect_learnt(network);
  EXPECT_TRUE(is_alike(communicator, network));
}

RANK_TEST(OnlineNormalization, IsBySamplesThatAreTaken) {
  const auto config =
      linear_config({"normalization.inputs=channels", "normalization.targets=channels",
                     fmt::format("normalization.freeze_after={}", 40 * communicator.size())});
  OnlineNetwork network(communicator, config), reference(communicator, config);
  auto random = random_of(communicator);
  for (int step = 1; step <= 3; ++step) {
    Cells cells(random, 32);
    reference.push(cells.inputs(), cells.targets());
    for (const double number : {1e6, -3e5}) {
      cells.a.insert(cells.a.begin(), number);
      cells.b.insert(cells.b.begin(), number);
      cells.y.insert(cells.y.begin(), std::numeric_limits<double>::quiet_NaN());
    }
    EXPECT_EQ(network.push(cells.inputs(), cells.targets()).not_finite, 2);
    network.tick(step);
    reference.tick(step);
    EXPECT_EQ(network.get("checksum"), reference.get("checksum"));
  }
}

RANK_TEST(OnlineNormalization, IsBySamplesGivenToTrain) {
  for (const char* const freeze_after : {"0", "500"}) {
    OnlineNetwork network(
        communicator,
        linear_config({"normalization.inputs=channels", "normalization.targets=channels",
                       std::string("normalization.freeze_after=") + freeze_after}));
    auto random = random_of(communicator);
    for (int step = 1; step <= 300; ++step) {
      auto cells = cells_far_from_0(random, 32, communicator);
      (void)network.train(cells.inputs(), cells.targets());
    }
    expect_learnt(network);
    EXPECT_EQ(network.get("arrivals"), 0);
    EXPECT_TRUE(is_alike(communicator, network));
  }
}

}  // namespace
}  // namespace kolo::testing
