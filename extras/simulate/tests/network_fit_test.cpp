// Networks are found again in the times of their collectives.
#include "network_model.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using ::testing::Property;
using ::testing::Throws;

class NetworkFitting : public ::testing::Test {
 protected:
  double between(double low, double high) {
    std::uniform_real_distribution<double> logarithm(std::log(low), std::log(high));
    return std::exp(logarithm(random_));
  }

  NetworkModel random_network() {
    return {"random",
            {between(1e-7, 1e-4), between(1e9, 5e10)},
            {between(1e-6, 1e-3), between(1e7, 2e10)},
            8e9};
  }

  // Times of a network at sizes from 4 KiB to 64 MiB, up to `noise` off.
  CollectiveMeasurement measured(const NetworkModel& network, const RankLayout& layout,
                                 double noise) {
    std::uniform_real_distribution<double> error(1 - noise, 1 + noise);
    CollectiveMeasurement measurement{layout, {}};
    for (double bytes = 4096; bytes <= 64 << 20; bytes *= 4) {
      measurement.points.push_back(
          {bytes, error(random_) * all_reduce_seconds(network, AllReduceAlgorithm::hierarchical,
                                                      layout, bytes)});
    }
    return measurement;
  }

  std::mt19937 random_{20240607};
  NetworkModel start_ = network_named("ethernet-10g");
};

// A ring, as NCCL's, is no stage in shared memory, but on the same number of ranks has the form of
// one: six turns, 1.5 times the bytes.
TEST_F(NetworkFitting, FindsARingOfFourDevices) {
  const NetworkModel ring = {"ring", {5e-6, 240e9}, {}, 1e18};
  CollectiveMeasurement measurement{{4, 4, 1}, {}};
  measurement.device = "A100";
  for (double bytes = 4096; bytes <= 64 << 20; bytes *= 4) {
    measurement.points.push_back(
        {bytes, all_reduce_seconds(ring, AllReduceAlgorithm::ring, {4, 4, 4}, bytes)});
  }
  const auto fit = fit_network(std::vector{measurement}, {});
  EXPECT_LT(fit.largest_error, 1e-3);
  EXPECT_NEAR(fit.model.within_node.latency_seconds, 15e-6, 1e-8);
  EXPECT_NEAR(fit.model.within_node.bytes_per_second / 320e9, 1, 1e-3);
  EXPECT_GT(fit.model.reduction_bytes_per_second, 100e9);
}

TEST_F(NetworkFitting, FindsRandomNetworksAgain) {
  for (int trial = 0; trial < 100; ++trial) {
    const auto network = random_network();
    const auto fit =
        fit_network(std::vector{measured(network, {4, 4, 4}, 0), measured(network, {16, 4, 4}, 0),
                                measured(network, {32, 4, 4}, 0)},
                    start_);
    EXPECT_LT(fit.largest_error, 1e-3) << trial;
    EXPECT_NEAR(fit.model.within_node.latency_seconds / network.within_node.latency_seconds, 1,
                .01);
    EXPECT_NEAR(fit.model.between_nodes.latency_seconds / network.between_nodes.latency_seconds, 1,
                .01);
    EXPECT_NEAR(fit.model.between_nodes.bytes_per_second / network.between_nodes.bytes_per_second,
                1, .01);
    EXPECT_EQ(fit.points, 24U);
  }
}

TEST_F(NetworkFitting, NoiseComesThroughAsErrorsOfItsSize) {
  for (int trial = 0; trial < 100; ++trial) {
    const auto network = random_network();
    const auto fit = fit_network(
        std::vector{measured(network, {2, 2, 2}, .05), measured(network, {8, 1, 2}, .05),
                    measured(network, {32, 1, 2}, .05)},
        start_);
    EXPECT_LT(fit.largest_error, .12) << trial;
    EXPECT_GT(fit.mean_error, .005);
    EXPECT_LT(fit.mean_error, .06);
    EXPECT_NEAR(fit.model.between_nodes.bytes_per_second / network.between_nodes.bytes_per_second,
                1, .1);
  }
}

TEST_F(NetworkFitting, WhatNothingTellsStaysAsItWas) {
  const auto network = random_network();
  const auto inside = fit_network(std::vector{measured(network, {2, 2, 2}, 0)}, start_);
  EXPECT_EQ(inside.model.between_nodes.bytes_per_second, start_.between_nodes.bytes_per_second);
  EXPECT_NEAR(inside.model.within_node.bytes_per_second / network.within_node.bytes_per_second, 1,
              .01);
  const auto from_nothing = fit_network(std::vector{measured(network, {2, 2, 2}, 0)}, {});
  EXPECT_NEAR(from_nothing.model.within_node.bytes_per_second,
              inside.model.within_node.bytes_per_second,
              1e-3 * network.within_node.bytes_per_second);
  const auto across = fit_network(std::vector{measured(network, {2, 1, 2}, 0)}, start_);
  EXPECT_EQ(across.model.within_node.bytes_per_second, start_.within_node.bytes_per_second);
}

TEST_F(NetworkFitting, RefusesTooLittle) {
  auto one_size = measured(start_, {2, 2, 2}, 0);
  for (auto& point : one_size.points) point.bytes = 4096;
  EXPECT_THAT([&] { (void)fit_network(std::vector{one_size}, start_); },
              Throws<InputError>(Property(&InputError::what,
                                          HasSubstr("8 all-reduces of 1 sizes were measured"))));
  auto two_points = measured(start_, {2, 1, 2}, 0);
  two_points.points.resize(2);
  EXPECT_THROW((void)fit_network(std::vector{two_points}, start_), InputError);
  EXPECT_THROW((void)fit_network({}, start_), InputError);
  auto timeless = measured(start_, {2, 2, 2}, 0);
  timeless.points[3].seconds = 0;
  EXPECT_THROW((void)fit_network(std::vector{timeless}, start_), InputError);
}

TEST_F(NetworkFitting, FindsTheLinkOfMessages) {
  std::vector<CollectiveMeasurement::Point> points;
  for (const double bytes : {1e3, 1e5, 1e7}) points.push_back({bytes, 60e-6 + bytes / 4e9});
  const auto link = fit_messages(points);
  EXPECT_NEAR(link.latency_seconds, 60e-6, 1e-10);
  EXPECT_NEAR(link.bytes_per_second, 4e9, 1);

  points.pop_back();
  EXPECT_TRUE(says(testing::message_of<InputError>([&] { (void)fit_messages(points); }),
                   {"2 messages of 2 sizes"}));
  points.push_back({0, 1});
  EXPECT_TRUE(says(testing::message_of<InputError>([&] { (void)fit_messages(points); }),
                   {"a message of 0 bytes in 1 seconds"}));
}

}  // namespace
}  // namespace kolo
