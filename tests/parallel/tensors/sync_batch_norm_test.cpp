#include <sstream>
#include <vector>

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "kolo/base/error.h"
#include "kolo/parallel/distributed_optimizer.h"
#include "kolo/parallel/sync_batch_norm.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/small_network.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/numbers.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

constexpr std::int64_t channels = 3;

// The first dimensions of the ranks' batches, with an empty one.
std::vector<std::int64_t> batches(int ranks) {
  std::vector<std::int64_t> sizes;
  for (int rank = 0; rank < ranks; ++rank) sizes.push_back(rank == 1 ? 0 : 4 + 3 * rank);
  return sizes;
}

void set_affine(torch::Tensor& weight, torch::Tensor& bias) {
  const torch::NoGradGuard no_gradient;
  weight.copy_(torch::tensor({1.5, -.5, 2.}));
  bias.copy_(torch::tensor({.1, .2, -3.}));
}

// Compares both layers' outputs, gradients of inputs and parameters, and running statistics.
template <typename BatchNorm>
void compare(const Communicator& communicator, std::vector<std::int64_t> behind,
             const torch::nn::BatchNormOptions& options, torch::ScalarType type, double tolerance) {
  SyncBatchNorm mine(communicator, options);
  BatchNorm reference(options);
  mine->to(type);
  reference->to(type);
  if (options.affine()) {
    set_affine(mine->weight, mine->bias);
    set_affine(reference->weight, reference->bias);
  }
  const auto sizes = batches(communicator.size());
  std::int64_t total = 0, begin = 0;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    if (rank == communicator.rank()) begin = total;
    total += sizes[static_cast<std::size_t>(rank)];
  }
  const auto own = sizes[static_cast<std::size_t>(communicator.rank())];
  std::vector<std::int64_t> shape = {total, channels};
  shape.insert(shape.end(), behind.begin(), behind.end());
  const auto is_close = [&](const torch::Tensor& a, const torch::Tensor& b) {
    return relative_difference(a, b) <= tolerance;
  };
  for (int step = 0; step < 3; ++step) {
    auto whole = (waves(shape, .37 + step, type) * 2 + 5).requires_grad_();
    auto part = whole.detach().slice(0, begin, begin + own).clone().requires_grad_();
    const auto slope = waves(shape, 1.7, type);
    const auto expected = reference->forward(whole);
    const auto output = mine->forward(part);
    (expected * slope + expected.pow(3)).sum().backward();
    (output * slope.slice(0, begin, begin + own) + output.pow(3)).sum().backward();
    EXPECT_TRUE(is_close(output, expected.slice(0, begin, begin + own)));
    EXPECT_TRUE(is_close(part.grad(), whole.grad().slice(0, begin, begin + own)));
  }
  if (options.affine()) {
    all_reduce(communicator, {mine->weight.grad(), mine->bias.grad()});
    EXPECT_TRUE(is_close(mine->weight.grad(), reference->weight.grad()));
    EXPECT_TRUE(is_close(mine->bias.grad(), reference->bias.grad()));
  }
  for (const auto& buffer : reference->named_buffers()) {
    if (buffer.value().defined()) {
      EXPECT_TRUE(is_close(mine->named_buffers()[buffer.key()], buffer.value())) << buffer.key();
    }
  }
  mine->eval();
  reference->eval();
  if (!options.track_running_stats()) return;  // it would go on with the batch's own
  const auto input = waves({2, channels, 2}, .9, type);
  EXPECT_TRUE(
      is_close(mine->forward(input),
               torch::batch_norm(input, reference->weight, reference->bias, reference->running_mean,
                                 reference->running_var, false, 0, options.eps(), false)));
}

RANK_TEST(SyncBatchNorm, EqualsBatchNormOfTheUnion) {
  using Options = torch::nn::BatchNormOptions;
  for (const auto& options :
       {Options(channels), Options(channels).affine(false), Options(channels).momentum(.3).eps(.1),
        Options(channels).momentum(c10::nullopt), Options(channels).track_running_stats(false)}) {
    compare<torch::nn::BatchNorm1d>(communicator, {}, options, torch::kDouble, 1e-9);
    compare<torch::nn::BatchNorm2d>(communicator, {4, 5}, options, torch::kFloat, 1e-5);
    compare<torch::nn::BatchNorm3d>(communicator, {2, 3, 2}, options, torch::kDouble, 1e-9);
  }
}

RANK_TEST(SyncBatchNorm, LargeMeansDoNotCancel) {
  SyncBatchNorm layer(communicator, torch::nn::BatchNormOptions(1));
  const int rank = communicator.rank(), ranks = communicator.size();
  // Every rank's values lie close around another large number.
  const auto offsets = torch::arange(8, torch::kDouble).view({8, 1});
  const auto input = offsets + 1e6 + rank * 8;
  const auto all = torch::arange(8 * ranks, torch::kDouble);
  layer->to(torch::kDouble);
  const auto output = layer->forward(input);
  const auto expected = (all - all.mean()) / torch::sqrt(all.var(false) + 1e-5);
  EXPECT_TRUE(
      torch::allclose(output.view({-1}), expected.slice(0, 8 * rank, 8 * rank + 8), 1e-9, 1e-9));
}

// A Sequential that can be in another one.
struct Inner : torch::nn::SequentialImpl {
  using SequentialImpl::SequentialImpl;
  torch::Tensor forward(torch::Tensor input) { return SequentialImpl::forward(input); }
};

struct Block : torch::nn::Module {
  Block()
      : layers(torch::nn::Linear(5, 4), torch::nn::BatchNorm1d(4),
               std::make_shared<Inner>(torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3))) {
    register_module("layers", layers);
  }
  torch::nn::Sequential layers;
};

// A module with members, as most networks that people write.
struct BlockWithMembers : torch::nn::Module {
  BlockWithMembers() {
    register_module("first", first);
    register_module("layers", layers);
  }
  torch::nn::BatchNorm2d first{4};
  torch::nn::Sequential layers{torch::nn::BatchNorm1d(4)};
};

// A module as docs/library/training-loops.md recommends it.
struct BlockOfAllRanks : torch::nn::Module {
  explicit BlockOfAllRanks(const Communicator& ranks)
      : norm(register_module("norm", SyncBatchNorm(ranks, torch::nn::BatchNormOptions(4)))) {}
  SyncBatchNorm norm;
};

// LibTorch can't replace members, and nobody wants half a conversion.
RANK_TEST(SyncBatchNorm, MembersThatKeepTheirTypeAreNamed) {
  BlockWithMembers block;
  EXPECT_TRUE(says(message_of<Error>([&] { convert_sync_batch_norm(communicator, block); }),
                   {"first (BatchNorm2d) can't be replaced", "Make it a kolo::SyncBatchNorm"}));
  EXPECT_TRUE(block.layers->ptr(0)->as<torch::nn::BatchNorm1d>()) << "nothing was converted";
  torch::nn::BatchNorm1d alone(3);
  EXPECT_THAT(batch_norms_held_by_type(*alone), ElementsAre("the module itself (BatchNorm1d)"));
  BlockOfAllRanks written(communicator.split(0).value());
  EXPECT_THAT(batch_norms_held_by_type(written), ::testing::IsEmpty());
  EXPECT_TRUE(written.norm->forward(torch::rand({3, 4, 2, 2})).defined());
  EXPECT_EQ(written.named_parameters().keys(),
            (std::vector<std::string>{"norm.weight", "norm.bias"}));
  communicator.barrier();
}

RANK_TEST(SyncBatchNorm, ALayerInTwoPlacesStaysOne) {
  const torch::nn::BatchNorm1d norm(3);
  torch::nn::Sequential twice(torch::nn::Linear(3, 3), norm, torch::nn::Linear(3, 3), norm);
  EXPECT_THAT(convert_sync_batch_norm(communicator, *twice), ElementsAre("1", "3"));
  EXPECT_EQ(twice->ptr(1), twice->ptr(3));
  EXPECT_TRUE(twice->forward(torch::rand({4, 3})).defined());
  communicator.barrier();
}

RANK_TEST(SyncBatchNorm, ConvertedNetworksKeepNamesAndTensors) {
  Block block, reference;
  const auto* weight = block.parameters()[2].unsafeGetTensorImpl();
  EXPECT_THAT(convert_sync_batch_norm(communicator, block), ElementsAre("layers.1", "layers.2.1"));
  EXPECT_EQ(block.parameters()[2].unsafeGetTensorImpl(), weight);
  EXPECT_EQ(block.named_parameters().keys(), reference.named_parameters().keys());
  EXPECT_EQ(block.named_buffers().keys(), reference.named_buffers().keys());
  std::ostringstream text;
  text << block.layers;
  EXPECT_TRUE(says(text.str(), {"kolo::SyncBatchNorm(4"}));
}

// Without biases before the norms, whose gradients are nothing but rounding.
torch::nn::Sequential normalised_network(torch::ScalarType type) {
  namespace nn = torch::nn;
  nn::Sequential network(nn::Linear(nn::LinearOptions(5, 8).bias(false)), nn::BatchNorm1d(8),
                         nn::Tanh(), nn::Linear(nn::LinearOptions(8, 6).bias(false)),
                         nn::BatchNorm1d(6), nn::Linear(6, 3));
  network->to(type);
  const torch::NoGradGuard no_gradient;
  double frequency = .7;
  for (auto& parameter : network->parameters())
    parameter.copy_(waves(parameter.sizes().vec(), frequency++) * .5 +
                    (parameter.dim() == 1 ? 1 : 0));
  return network;
}

// A reducer's buckets travel at the same time.
RANK_TEST(SyncBatchNorm, ConvertedNetworksTrainAsOnTheUnion) {
  for (const auto& [type, tolerance] :
       {std::pair{torch::kDouble, 1e-9}, std::pair{torch::kFloat, 1e-5}}) {
    auto network = normalised_network(type), reference = normalised_network(type);
    EXPECT_EQ(convert_sync_batch_norm(communicator, *network).size(), 2U);
    const auto options = torch::optim::SGDOptions(.05).momentum(.9);
    torch::optim::SGD peer(reference->parameters(), options);
    DistributedOptimizer optimizer(communicator, *network,
                                   torch::optim::SGD(network->parameters(), options),
                                   {.reducer = {.buckets = {1, 1}}});
    const int rank = communicator.rank(), ranks = communicator.size();
    for (int step = 0; step < 3; ++step) {
      const auto whole = noise({4 * ranks, 5}, step).to(type);
      optimizer.zero_grad();
      network->forward(whole.slice(0, 4 * rank, 4 * rank + 4)).square().sum(1).mean().backward();
      optimizer.step();
      peer.zero_grad();
      reference->forward(whole).square().sum(1).mean().backward();
      peer.step();
    }
    expect_parameters(*network, reference->parameters(), tolerance, tolerance);
    for (const auto& item : reference->named_buffers())
      EXPECT_TRUE(network->named_buffers()[item.key()].allclose(item.value(), tolerance, tolerance))
          << item.key();
  }
}

RANK_TEST(SyncBatchNorm, WhatCannotBeIsAnError) {
  SyncBatchNorm layer(communicator, torch::nn::BatchNormOptions(2));
  EXPECT_TRUE(says(message_of<Error>([&] {
                     (void)layer->forward(torch::zeros({4, 3}));
                   }),
                   {"shape [4, 3]; expected a floating dtype and [N, 2, ...]"}));
  const auto few = torch::zeros({communicator.rank() == 0 ? 1 : 0, 2});
  EXPECT_TRUE(says(message_of<Error>([&] { (void)layer->forward(few); }),
                   {"together have 1 values a channel"}));
}

}  // namespace

}  // namespace kolo::testing
