#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/parallel/gradient_noise.h"
#include "kolo/parallel/gradient_reducer.h"
#include "parallel/small_network.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

// Draws what ranks would measure: means of `samples` samples on each, of gradients that are
// normally distributed around `truth` with a variance in each element.
GradientSquares draw(std::mt19937_64& random, const std::vector<double>& truth, double variance,
                     int ranks, double samples) {
  std::normal_distribution<double> spread(0, std::sqrt(variance / samples));
  std::vector<double> mean(truth.size());
  GradientSquares squares{0, 0, samples, ranks * samples};
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < truth.size(); ++i) {
      const double value = truth[i] + spread(random);
      mean[i] += value / ranks;
      squares.own += value * value / ranks;
    }
  }
  for (const double value : mean) squares.averaged += value * value;
  return squares;
}

}  // namespace

TEST(GradientNoise, FindsWhatTheSamplesWereDrawnWith) {
  std::mt19937_64 random(7);
  std::vector<double> truth(300);
  std::uniform_real_distribution<double> element(-.1, .1);
  double square = 0;
  for (double& value : truth) {
    value = element(random);
    square += value * value;
  }
  const double variance = .02, noise = 300 * variance;
  for (const int ranks : {2, 3, 16}) {
    GradientNoise found(1000);
    for (int step = 0; step < 6000; ++step) found.add(draw(random, truth, variance, ranks, 4));
    const auto estimate = found.estimate().value();
    EXPECT_NEAR(estimate.gradient, square, .05 * square) << ranks;
    EXPECT_NEAR(estimate.noise, noise, .05 * noise) << ranks;
    EXPECT_NEAR(estimate.scale(), noise / square, .1 * noise / square) << ranks;
  }
}

TEST(GradientNoise, OldMeasurementsFade) {
  GradientNoise noise(2);
  EXPECT_FALSE(noise.estimate());
  noise.add({3, 2, 1, 2});  // |G|^2 = 1, tr(S) = 2
  EXPECT_DOUBLE_EQ(noise.estimate()->gradient, 1);
  EXPECT_DOUBLE_EQ(noise.estimate()->noise, 2);
  noise.add({5, 5, 1, 2});  // 5 and 0
  const double old = std::exp(-.5);
  EXPECT_DOUBLE_EQ(noise.estimate()->gradient, (1 * old + 5) / (1 + old));
  EXPECT_DOUBLE_EQ(noise.estimate()->noise, 2 * old / (1 + old));
  GradientNoise same(2);
  same.restore(noise.state());
  noise.add({7, 5, 1, 3});
  same.add({7, 5, 1, 3});
  EXPECT_EQ(same.estimate()->gradient, noise.estimate()->gradient);
  EXPECT_EQ(same.estimate()->noise, noise.estimate()->noise);
}

TEST(GradientNoise, WhatCanNotBeMeasuredIsLeftOutOrRefused) {
  GradientNoise noise;
  noise.add({std::numeric_limits<double>::infinity(), 1, 1, 2});
  noise.add({1, std::numeric_limits<double>::quiet_NaN(), 1, 2});
  EXPECT_FALSE(noise.estimate());
  EXPECT_TRUE(says(message_of<Error>([&] { noise.add({1, 1, 4, 4}); }), {"it takes two ranks"}));
  EXPECT_THROW(GradientNoise(.5), Error);
}

TEST(GradientNoise, AGainIsBetweenOneAndTheRatioOfTheBatches) {
  using Estimate = GradientNoise::Estimate;
  EXPECT_DOUBLE_EQ((Estimate{1, 0}.gain(8, 64)), 1);   // nothing but gradient
  EXPECT_DOUBLE_EQ((Estimate{0, 1}.gain(8, 64)), 8);   // nothing but noise
  EXPECT_DOUBLE_EQ((Estimate{-1, 1}.gain(8, 64)), 8);  // which an estimate may come to
  EXPECT_DOUBLE_EQ((Estimate{1, 8}.gain(8, 64)), 2 / 1.125);
  EXPECT_DOUBLE_EQ((Estimate{0, 0}.gain(8, 64)), 1);
  EXPECT_TRUE(std::isinf((Estimate{-1, 1}.scale())));
  EXPECT_DOUBLE_EQ((Estimate{2, 8}.scale()), 4);
}

namespace {

// By parameter.
torch::Tensor squares_of(const torch::nn::Module& module) {
  std::vector<torch::Tensor> squares;
  for (const auto& parameter : module.parameters())
    squares.push_back(parameter.grad().to(torch::kDouble).square().sum());
  return torch::stack(squares);
}

// Of the gradient over these samples.
torch::Tensor squares_of_gradient(const torch::Tensor& input) {
  SmallNetwork network;
  mean_loss(network, input).backward();
  return squares_of(network);
}

// What the squares of each parameter count, where the average gradient has these.
torch::Tensor weights(NoiseMetric metric, const torch::Tensor& averaged) {
  if (metric == NoiseMetric::plain) return torch::ones_like(averaged);
  std::vector<double> sizes;
  for (const auto& parameter : SmallNetwork().parameters())
    sizes.push_back(static_cast<double>(parameter.numel()));
  return (averaged / torch::tensor(sizes, torch::kDouble)).rsqrt();
}

}  // namespace

// Ranks have 3 samples each; several buckets, one, and gradients that travel in 16 bits.
RANK_TEST(NoiseMeter, MeasuresAroundTheAverageOfAReducer) {
  const int ranks = communicator.size(), rank = communicator.rank();
  auto own = torch::zeros({}, torch::kDouble);
  for (int other = 0; other < ranks; ++other)
    own = own + squares_of_gradient(samples(3 * other, 3 * other + 3)) / ranks;
  const auto of_all = squares_of_gradient(samples(0, 3 * ranks));
  const auto sum = [](const torch::Tensor& squares, const torch::Tensor& weights) {
    return (squares * weights).sum().item<double>();
  };
  for (const std::int64_t bucket : {64, 1 << 20}) {
    for (const auto metric : {NoiseMetric::plain, NoiseMetric::by_tensor}) {
      for (const bool compresses : {false, true}) {
        const auto meter =
            std::make_shared<NoiseMeter>(compresses ? bfloat16_compression() : nullptr, metric);
        SmallNetwork network;
        GradientReducer reducer(communicator, network,
                                {.hook = meter, .buckets = {bucket, bucket}});
        for (int step = 0; step < 3; ++step) {
          const bool measures = step != 1;
          reducer.clear_gradients();
          if (measures) meter->measure_next();
          mean_loss(network, samples(3 * rank, 3 * rank + 3)).backward();
          reducer.finish();
          const auto found = meter->take(communicator, 3);
          ASSERT_EQ(found.has_value(), measures);
          // Of each step the same, whoever averages: 16 bits have fewer digits.
          const auto averaged = squares_of(network), weight = weights(metric, averaged);
          const auto ones = torch::ones_like(averaged);
          EXPECT_NEAR(sum(averaged, ones), sum(of_all, ones),
                      (compresses ? 2e-2 : 1e-5) * sum(of_all, ones));
          if (!measures) continue;
          EXPECT_NEAR(found->own, sum(own, weight), 1e-5 * sum(own, weight));
          EXPECT_NEAR(found->averaged, sum(averaged, weight), 1e-5 * sum(averaged, weight));
          EXPECT_EQ(found->own_samples, 3);
          EXPECT_EQ(found->all_samples, 3 * ranks);
        }
        EXPECT_EQ(meter->bytes_sent() > 0, ranks > 1);
        EXPECT_EQ(reducer.statistics().hook_bytes, meter->bytes_sent());
      }
    }
  }
}

}  // namespace kolo::testing
