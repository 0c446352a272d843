#include <vector>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/parallel/gradient_hook.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/small_network.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

// A bucket with the gaps between its gradients that a plan would leave.
GradientBucket bucket_of(const std::vector<std::vector<std::int64_t>>& shapes,
                         torch::ScalarType type = torch::kFloat) {
  std::vector<std::int64_t> offsets = {0};
  for (const auto& shape : shapes) {
    const auto count = c10::multiply_integers(shape);
    offsets.push_back((offsets.back() + count + 15) / 16 * 16);
  }
  GradientBucket bucket;
  bucket.flat = torch::zeros({offsets.back()}, type);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const auto count = c10::multiply_integers(shapes[i]);
    bucket.gradients.push_back(bucket.flat.narrow(0, offsets[i], count).view(shapes[i]));
  }
  return bucket;
}

// Values that depend on the rank and the step, without a direction that dominates. With
// `of_rank_2`, the matrices mix two rows that are the same for all ranks and steps.
void fill(const GradientBucket& bucket, int rank, std::int64_t step, bool of_rank_2 = false) {
  for (std::size_t i = 0; i < bucket.gradients.size(); ++i) {
    const torch::Tensor& gradient = bucket.gradients[i];
    const auto index = torch::arange(gradient.numel(), torch::kDouble) + 1;
    const auto phase =
        1.0 + 10.0 * rank + 0.37 * static_cast<double>(step) + static_cast<double>(i);
    gradient.copy_(torch::sin(index * index * 0.61 + phase).view(gradient.sizes()));
    if (!of_rank_2 || gradient.dim() < 2) continue;
    const auto matrix = gradient.flatten(1);
    const auto rows = torch::sin(index * index * 0.23).to(gradient.dtype()).view(matrix.sizes());
    matrix.copy_(matrix.narrow(1, 0, 2).matmul(rows.narrow(0, 0, 2)));
  }
}

torch::Tensor mean_over_ranks(const GradientBucket& like, int ranks, std::int64_t step,
                              std::vector<std::vector<std::int64_t>> shapes,
                              bool of_rank_2 = false) {
  auto sum = torch::zeros_like(like.flat, torch::kDouble);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto bucket = bucket_of(shapes, torch::kDouble);
    fill(bucket, rank, step, of_rank_2);
    sum += bucket.flat;
  }
  return sum / ranks;
}

void expect_same_on_all_ranks(const Communicator& communicator, const torch::Tensor& tensor) {
  const torch::Tensor of_root = tensor.clone();
  broadcast(communicator, of_root);
  EXPECT_TRUE(tensor.equal(of_root));
}

RANK_TEST(PowerSgd, MatricesOfItsRankAreExact) {
  const std::vector<std::vector<std::int64_t>> shapes = {{30, 5, 4}, {11}, {20, 24}};
  const auto hook = power_sgd({.rank = 2, .start_step = 0});
  for (std::int64_t step = 0; step < 3; ++step) {
    const auto bucket = bucket_of(shapes);
    fill(bucket, communicator.rank(), step, true);
    hook->average(communicator, bucket);
    const auto expected = mean_over_ranks(bucket, communicator.size(), step, shapes, true);
    EXPECT_TRUE(bucket.flat.to(torch::kDouble).allclose(expected, 1e-4, 1e-4));
    expect_same_on_all_ranks(communicator, bucket.flat);
  }
}

// Compression sends later what it leaves out: the sums of true and decompressed gradients differ by
// the error that is still held back, which doesn't grow.
RANK_TEST(PowerSgd, ErrorFeedbackMakesUpForTheLoss) {
  const std::vector<std::vector<std::int64_t>> shapes = {{24, 18}, {5}};
  constexpr std::int64_t steps = 200;
  const auto hook = power_sgd({.rank = 2, .start_step = 0});
  torch::Tensor lost, sum;
  for (std::int64_t step = 0; step < steps; ++step) {
    const auto bucket = bucket_of(shapes);
    fill(bucket, communicator.rank(), 0);  // the same every step, to be found bit by bit
    hook->average(communicator, bucket);
    expect_same_on_all_ranks(communicator, bucket.flat);
    const auto truth = mean_over_ranks(bucket, communicator.size(), 0, shapes);
    lost = step == 0 ? truth - bucket.flat : lost + truth - bucket.flat;
    sum = step == 0 ? truth : sum + truth;
    // The first steps lose much; nothing travels, nothing is compressed, of one rank.
    if (step == 0 && communicator.size() > 1) {
      EXPECT_GT((lost.norm() / sum.norm()).item<double>(), 0.3);
    }
  }
  EXPECT_LT((lost.norm() / sum.norm()).item<double>(), communicator.size() == 1 ? 1e-6 : 0.1);
}

RANK_TEST(PowerSgd, ItSendsWhatTheShapesSay) {
  // 40 x 30 of rank 2 is compressed, 3 x 4 would not shrink, vectors stay.
  const std::vector<std::vector<std::int64_t>> shapes = {{40, 5, 6}, {3, 4}, {40}};
  const auto hook = power_sgd({.rank = 2, .start_step = 2});
  const auto bucket = bucket_of(shapes);
  for (std::int64_t step = 0; step < 5; ++step) {
    fill(bucket, communicator.rank(), step);
    hook->average(communicator, bucket);
  }
  const std::int64_t whole = bucket.flat.numel() * 4;
  const std::int64_t compressed = ((40 + 30) * 2 + 12 + 40) * 4;
  EXPECT_EQ(hook->bytes_sent(), communicator.size() == 1 ? 0 : 2 * whole + 3 * compressed);
  hook->buckets_changed();  // the plain averaging begins anew, with buckets of other shapes
  const auto other = bucket_of({{64, 64}}, torch::kHalf);
  other.flat.fill_(communicator.rank());
  hook->average(communicator, other);
  EXPECT_TRUE(other.flat.eq((communicator.size() - 1) / 2.0).all().item<bool>());
}

RANK_TEST(PowerSgd, AGradientNotFiniteIsSeenByAllAndForgotten) {
  const auto hook = power_sgd({.start_step = 0});
  const auto bucket = bucket_of({{16, 16}, {3}});
  for (std::int64_t step = 0; step < 6; ++step) {
    fill(bucket, communicator.rank(), step);
    if (step == 2 && communicator.rank() == communicator.size() - 1)
      bucket.gradients[0][3][4] = std::numeric_limits<float>::infinity();
    hook->average(communicator, bucket);
    const auto finite = torch::isfinite(bucket.gradients[0]);
    EXPECT_EQ(finite.sum().item<std::int64_t>(), step == 2 ? 255 : 256);
    EXPECT_EQ(finite[3][4].item<bool>(), step != 2);
  }
}

RANK_TEST(PowerSgd, WrongOptionsAreRefused) {
  EXPECT_TRUE(says(message_of<InputError>([] { (void)power_sgd({.rank = 0}); }), {"rank 0"}));
}

}  // namespace

}  // namespace kolo::testing
