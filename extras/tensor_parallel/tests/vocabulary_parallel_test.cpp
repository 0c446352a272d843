#include <string>

#include <gmock/gmock.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/embedding.h>

#include "kolo/base/error.h"
#include "kolo/tensor_parallel/group_functions.h"
#include "kolo/tensor_parallel/vocabulary_parallel.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"
#include "tensor_cases.h"

namespace kolo::testing {

namespace {

constexpr std::int64_t words = 20;

// Every word once, of which some are ignored.
torch::Tensor targets_with_gaps() {
  auto targets = torch::arange(30, torch::kLong).mul_(7).remainder_(words).view({6, 5});
  return targets.masked_fill(torch::arange(30).view({6, 5}).remainder(4).eq(1), -100);
}

torch::Tensor reference_loss(const torch::Tensor& logits, const torch::Tensor& targets,
                             LossReduction reduction) {
  auto options = torch::nn::functional::CrossEntropyFuncOptions();
  if (reduction == LossReduction::mean) options.reduction(torch::kMean);
  if (reduction == LossReduction::sum) options.reduction(torch::kSum);
  if (reduction == LossReduction::none) options.reduction(torch::kNone);
  return torch::nn::functional::cross_entropy(logits.reshape({-1, words}), targets.reshape({-1}),
                                              options);
}

torch::Tensor weighed(const torch::Tensor& loss) {
  return (loss.reshape({-1}) * waves({loss.numel()}, 1.3, loss.scalar_type())).sum();
}

void expect_loss(const Communicator& group, double scale, torch::ScalarType type,
                 LossReduction reduction) {
  const auto targets = targets_with_gaps();
  const auto logits = (noise({6, 5, words}, 3) * scale).to(type).requires_grad_();
  const auto expected = reference_loss(logits, targets, reduction);
  weighed(expected + 1).backward();
  const auto whole = logits.detach().clone().requires_grad_();
  const auto loss = vocabulary_cross_entropy(group, scatter_to_group(group, whole), targets,
                                             {.reduction = reduction});
  weighed(loss + 1).backward();
  const auto what = "logits up to " + std::to_string(scale);
  expect_close(loss.reshape({-1}), expected.reshape({-1}), tolerance_of(type), what + ", loss");
  EXPECT_EQ(loss.dim(), reduction == LossReduction::none ? 2 : 0);
  expect_close(whole.grad(), logits.grad(), tolerance_of(type), what + ", gradient");
}

RANK_TEST(VocabularyCrossEntropy, IsLibTorchs) {
  for (const auto type : {torch::kDouble, torch::kFloat}) {
    for (const auto reduction : {LossReduction::mean, LossReduction::sum, LossReduction::none}) {
      // The last overflow any exponential.
      for (const double scale : {1., 30., 1e4}) expect_loss(communicator, scale, type, reduction);
    }
  }
}

RANK_TEST(VocabularyCrossEntropy, SixteenBitsAreComputedInFloat32) {
  const auto targets = targets_with_gaps();
  const auto logits = (noise({6, 5, words}, 3) * 8).to(torch::kBFloat16);
  const auto loss =
      vocabulary_cross_entropy(communicator, scatter_to_group(communicator, logits), targets);
  EXPECT_EQ(loss.scalar_type(), torch::kBFloat16);
  const auto expected = reference_loss(logits.to(torch::kFloat), targets, LossReduction::mean);
  EXPECT_EQ(loss.item<float>(), expected.to(torch::kBFloat16).item<float>());
}

RANK_TEST(VocabularyCrossEntropy, WhatItRefuses) {
  const auto part = words / communicator.size();
  const auto refusal = [&](const torch::Tensor& logits, const torch::Tensor& targets) {
    return message_of<InputError>(
        [&] { (void)vocabulary_cross_entropy(communicator, logits, targets); });
  };
  const auto logits = torch::zeros({3, part});
  EXPECT_TRUE(says(refusal(logits, torch::full({3}, words, torch::kLong)),
                   {"the word 20 is outside of the vocabulary, expected 0 to 19"}));
  EXPECT_TRUE(says(refusal(logits, torch::full({3}, -1, torch::kLong)), {"the word -1"}));
  EXPECT_TRUE(says(refusal(logits, torch::zeros({4}, torch::kLong)), {"for targets of shape [4]"}));
  EXPECT_TRUE(says(refusal(logits, torch::zeros({3}, torch::kInt)), {"expected int64"}));
}

void expect_embedding(const Communicator& group, bool sequence_parts) {
  torch::nn::Embedding reference(words, 6);
  set_numbers(*reference);
  reference->to(torch::kDouble);
  VocabularyParallelEmbedding layer(group, words, 6, sequence_parts);
  layer->to(torch::kDouble);
  set_whole_parameters(group, *layer, values_of(*reference, same_name));
  const auto input = torch::arange(24, torch::kLong).mul_(11).remainder_(words).view({8, 3});
  const auto slope = waves({8, 3, 6}, .7);
  const auto expected = reference(input);
  (expected.square() * slope).sum().backward();
  auto output = layer(input);
  if (sequence_parts) {
    EXPECT_EQ(output.size(0), 8 / group.size());
    output = gather_from_group(group, output, 0);
  }
  (output.square() * slope).sum().backward();
  expect_close(output, expected, 1e-12, "embedding");
  expect_close(whole_gradients(group, *layer)["weight"], reference->weight.grad(), 1e-12,
               "gradient");
}

RANK_TEST(VocabularyParallelEmbedding, IsLibTorchs) {
  expect_embedding(communicator, false);
  expect_embedding(communicator, true);
}

RANK_TEST(VocabularyParallelEmbedding, WhatItRefuses) {
  VocabularyParallelEmbedding layer(communicator, words, 2);
  EXPECT_TRUE(says(message_of<InputError>([&] { layer(torch::full({2}, words, torch::kLong)); }),
                   {"the word 20 is outside"}));
  if (communicator.size() == 1) return;
  EXPECT_TRUE(says(message_of<InputError>(
                       [&] { VocabularyParallelEmbedding uneven(communicator, words + 1, 2); }),
                   {"21 words can't be cut"}));
}

}  // namespace

}  // namespace kolo::testing
