// Layers that ranks share, on a device: what they have on the host.
#include <cmath>
#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "kolo/comm/threads.h"
#include "kolo/tensor_parallel/mesh_gradients.h"
#include "kolo/tensor_parallel/parallel_attention.h"
#include "kolo/tensor_parallel/part_layer_norm.h"
#include "kolo/tensor_parallel/vocabulary_parallel.h"
#include "support/test_devices.h"
#include "tensor_cases.h"

namespace kolo::testing {

namespace {

constexpr int device_ranks = 2;
constexpr std::int64_t device_words = 10, device_features = 8;

// Results of a rank, on the host.
using Results = std::vector<torch::Tensor>;
using RankBody = std::function<Results(const Communicator&, const torch::Device&)>;

std::vector<Results> results_of(const RankBody& body, bool is_on_device) {
  std::vector<Results> results(device_ranks);
  const ThreadRanksOptions options{.devices = test_device_options(512)};
  run_as_threads(
      device_ranks,
      [&](const Communicator& communicator) {
        const int rank = communicator.rank();
        const auto device = is_on_device ? test_device(rank) : torch::Device(torch::kCPU);
        for (const auto& result : body(communicator, device))
          results[static_cast<std::size_t>(rank)].push_back(result.detach().to(torch::kCPU));
      },
      options);
  return results;
}

void expect_same_on_device(const RankBody& body) {
  const auto on_host = results_of(body, false), on_device = results_of(body, true);
  for (std::size_t rank = 0; rank < on_host.size(); ++rank) {
    ASSERT_EQ(on_device[rank].size(), on_host[rank].size());
    for (std::size_t i = 0; i < on_host[rank].size(); ++i)
      expect_close(on_device[rank][i], on_host[rank][i], 1e-6, "result " + std::to_string(i));
  }
}

// Words to words through all kinds of layers, on parts of a sequence.
Results transformer_step(const Communicator& communicator, const torch::Device& device) {
  const auto mesh = tensor_mesh(communicator);
  const auto& group = mesh.axis(MeshAxis::tensor);
  VocabularyParallelEmbedding embedding(group, device_words, device_features, true);
  PartLayerNorm norm(torch::nn::LayerNormOptions({device_features}));
  ParallelSelfAttention attention(
      group, device_features, 2,
      ParallelAttentionOptions{.is_causal = true, .sequence_dimension = 0});
  ColumnParallelLinear logits(group, device_features, device_words,
                              ColumnParallelOptions{.bias = false, .sequence_dimension = 0});
  torch::nn::Module all;
  all.register_module("embedding", embedding.ptr());
  all.register_module("norm", norm.ptr());
  all.register_module("attention", attention.ptr());
  all.register_module("logits", logits.ptr());
  set_numbers(all);
  all.to(device);
  const auto words = torch::arange(12, torch::kLong).mul_(7).remainder_(device_words).view({6, 2});
  const auto loss =
      vocabulary_cross_entropy(group, logits(attention(norm(embedding(words.to(device))))),
                               (words + 1).remainder(device_words).to(device));
  loss.backward();
  sum_sequence_gradients(group, all);
  Results results = {loss, torch::tensor(clip_gradient_norm(mesh, all, .1))};
  for (const auto& parameter : all.parameters()) results.push_back(parameter.grad());
  for (const auto& item : whole_parameters(group, all)) results.push_back(item.value());
  return results;
}

TEST(LayersOnADevice, TransformersComputeWhatTheyDoOnTheHost) {
  if (is_gpu_wanted()) GTEST_SKIP() << "ranks that are threads can't share a GPU in backward";
  expect_same_on_device(transformer_step);
}

// Nobody looks at targets on a device.
TEST(LayersOnADevice, ATargetOutsideOfTheVocabularyHasNoLoss) {
  (void)results_of(
      [](const Communicator& communicator, const torch::Device& device) {
        const auto logits = torch::zeros({2, 5}).to(device);
        const auto targets = torch::tensor({3, 10}, torch::kLong).to(device);
        const auto losses = vocabulary_cross_entropy(communicator, logits, targets,
                                                     {.reduction = LossReduction::none})
                                .to(torch::kCPU);
        EXPECT_NEAR(losses[0].item<float>(), std::log(10.), 1e-6);
        EXPECT_TRUE(std::isnan(losses[1].item<float>()));
        return Results{};
      },
      true);
}

}  // namespace

}  // namespace kolo::testing
