#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/functional.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "support/simulated_device/device.h"

// Operators that networks, optimizers and averages of gradients are made of, forward and backward:
// the CPU's bits, and gradients where they belong.
namespace kolo::testing::simulated {
namespace {

namespace functional = torch::nn::functional;

// Sums are cut by the number of threads, which is not the same in autograd's threads for devices as
// in the host's unless it is set before they start.
[[maybe_unused]] const bool one_thread = (torch::set_num_threads(1), true);

using Inputs = std::vector<torch::Tensor>;
using Function = std::function<torch::Tensor(const Inputs&)>;

// Results and gradients of a function of floating-point tensors.
Inputs results(const Function& function, const Inputs& inputs, const torch::Device& device) {
  Inputs own;
  for (const auto& input : inputs) own.push_back(input.to(device).detach().requires_grad_(true));
  torch::manual_seed(7);
  const auto output = function(own);
  output.square().sum().backward();
  Inputs all{output.detach()};
  for (const auto& input : own) {
    all.push_back(input.grad().defined() ? input.grad() : torch::zeros_like(input));
  }
  return all;
}

void expect_same(const std::string& name, const Function& function, const Inputs& inputs) {
  SCOPED_TRACE(name);
  const auto on_host = results(function, inputs, torch::kCPU);
  const auto on_device = results(function, inputs, device(1));
  for (std::size_t i = 0; i < on_host.size(); ++i) {
    EXPECT_EQ(on_device[i].device(), device(1)) << i;
    EXPECT_TRUE(torch::equal(on_device[i].cpu(), on_host[i])) << i;
  }
}

TEST(SimulatedOperators, OfNetworksHaveTheHostsBits) {
  const auto images = torch::randn({2, 4, 6, 6}), boxes = torch::randn({2, 2, 4, 4, 4});
  const auto rows = torch::randn({5, 8}), others = torch::randn({5, 8});
  const auto weight = torch::randn({4, 4, 3, 3}), box_weight = torch::randn({3, 2, 3, 3, 3});
  const std::vector<std::tuple<std::string, Inputs, Function>> cases{
      {"conv2d",
       {images, weight},
       [](const auto& x) { return torch::conv2d(x[0], x[1], {}, 2, 1); }},
      {"depthwise",
       {images, torch::randn({4, 1, 3, 3})},
       [](const auto& x) { return torch::conv2d(x[0], x[1], {}, 1, 1, 1, 4); }},
      {"conv3d",
       {boxes, box_weight, torch::randn({3})},
       [](const auto& x) { return torch::conv3d(x[0], x[1], x[2], 1, 1); }},
      {"conv_transpose3d",
       {boxes, torch::randn({2, 3, 2, 2, 2}), torch::randn({3})},
       [](const auto& x) { return torch::conv_transpose3d(x[0], x[1], x[2], 2); }},
      {"max_pool3d", {boxes}, [](const auto& x) { return torch::max_pool3d(x[0], 2); }},
      {"avg_pool2d", {images}, [](const auto& x) { return torch::avg_pool2d(x[0], 2); }},
      {"adaptive_avg_pool2d",
       {images},
       [](const auto& x) {
         return torch::adaptive_avg_pool2d(x[0], {1, 1});
       }},
      {"adaptive_avg_pool3d",
       {boxes},
       [](const auto& x) {
         return torch::adaptive_avg_pool3d(x[0], {1, 2, 1});
       }},
      {"interpolate",
       {images},
       [](const auto& x) {
         return functional::interpolate(x[0], functional::InterpolateFuncOptions()
                                                  .size(std::vector<std::int64_t>{9, 9})
                                                  .mode(torch::kBilinear)
                                                  .align_corners(false));
       }},
      {"batch_norm",
       {images, torch::randn({4}), torch::randn({4})},
       [](const auto& x) {
         return torch::batch_norm(x[0], x[1], x[2], {}, {}, true, .1, 1e-5, false);
       }},
      {"group_norm", {images}, [](const auto& x) { return torch::group_norm(x[0], 2); }},
      {"layer_norm", {rows}, [](const auto& x) { return torch::layer_norm(x[0], {8}); }},
      {"linear", {rows, others}, [](const auto& x) { return torch::linear(x[0], x[1]); }},
      {"bmm", {images.flatten(0, 1)}, [](const auto& x) { return torch::bmm(x[0], x[0]); }},
      {"softmax", {rows}, [](const auto& x) { return torch::softmax(x[0], 1); }},
      {"gelu", {rows}, [](const auto& x) { return torch::gelu(x[0]); }},
      {"leaky_relu", {rows}, [](const auto& x) { return torch::leaky_relu(x[0], .2); }},
      {"dropout", {rows}, [](const auto& x) { return torch::dropout(x[0], .5, true); }},
      {"cat",
       {rows, others},
       [](const auto& x) {
         return torch::cat({x[0], x[1]}, 1);
       }},
      {"pad",
       {images},
       [](const auto& x) {
         return torch::constant_pad_nd(x[0], {1, 1, 2, 0});
       }},
      {"roll, flip", {images}, [](const auto& x) { return x[0].roll(1, 2).flip({3}); }},
      {"index",
       {rows},
       [](const auto& x) {
         return x[0].index_select(0, torch::tensor({3, 1, 1}).to(x[0].device()));
       }},
      {"embedding",
       {rows},
       [](const auto& x) {
         return torch::embedding(x[0], torch::tensor({3, 1, 1}).to(x[0].device()));
       }},
      {"l1_loss", {rows, others}, [](const auto& x) { return torch::l1_loss(x[0], x[1]); }},
      {"huber_loss", {rows, others}, [](const auto& x) { return torch::huber_loss(x[0], x[1]); }},
      {"binary cross-entropy",
       {rows, others},
       [](const auto& x) {
         return torch::binary_cross_entropy_with_logits(x[0], x[1].detach().sigmoid());
       }},
      {"cross-entropy of probabilities",
       {rows, others},
       [](const auto& x) {
         return torch::cross_entropy_loss(x[0], x[1].detach().softmax(1), {}, at::Reduction::Mean,
                                          -100, .1);
       }},
      {"norm", {rows}, [](const auto& x) { return x[0].norm(); }},
      {"topk", {rows}, [](const auto& x) { return std::get<0>(x[0].topk(2)); }},
      {"cumsum, clamp", {rows}, [](const auto& x) { return x[0].cumsum(1).clamp(-1, 1); }},
      {"bfloat16",
       {rows, others},
       [](const auto& x) {
         return x[0].to(torch::kBFloat16).matmul(x[1].t().to(torch::kBFloat16));
       }},
  };
  for (const auto& [name, inputs, function] : cases) expect_same(name, function, inputs);
}

TEST(SimulatedOperators, OfOptimizersHaveTheHostsBits) {
  const auto first = torch::randn({4, 3}), second = torch::randn({5});
  std::vector<Inputs> all;
  for (const auto& place : {torch::Device(torch::kCPU), device()}) {
    Inputs parameters{first.to(place).clone().requires_grad_(true),
                      second.to(place).clone().requires_grad_(true)};
    torch::optim::Adam optimizer(parameters, torch::optim::AdamOptions(.1).amsgrad(true));
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      (parameters[0].square().sum() + parameters[1].exp().sum()).backward();
      torch::nn::utils::clip_grad_norm_(parameters, .5);
      optimizer.step();
    }
    all.push_back(parameters);
  }
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(torch::equal(all[1][i].cpu(), all[0][i])) << i;
}

TEST(SimulatedOperators, OfListsWorkInPlace) {
  Inputs values{torch::ones({3}).to(device()), torch::ones({2, 2}).to(device())};
  const auto flat = torch::zeros({7}).to(device());
  Inputs parts{flat.narrow(0, 0, 3), flat.narrow(0, 3, 4).view({2, 2})};
  torch::_foreach_add_(parts, values, 2);
  torch::_foreach_mul_(parts, 3);
  EXPECT_TRUE(torch::equal(flat.cpu(), torch::full({7}, 6.F)));
  const auto sums = torch::_foreach_add(parts, values, 1);
  EXPECT_EQ(sums[1].device(), device());
  EXPECT_TRUE(torch::equal(sums[1].cpu(), torch::full({2, 2}, 7.F)));
  EXPECT_TRUE(torch::isfinite(flat).all().item<bool>());
}

TEST(SimulatedOperators, CountWhatTheHostWaitsFor) {
  const auto waits_of = [](const auto& body) {
    const auto before = host_waits();
    body();
    return host_waits() - before;
  };
  const auto there = torch::ones({3}).to(device());
  EXPECT_EQ(waits_of([&] { (void)there.sum().item<float>(); }), 1);
  EXPECT_EQ(waits_of([&] { (void)there.cpu(); }), 1);
  EXPECT_EQ(waits_of([&] { (void)there.nonzero(); }), 1);
  EXPECT_EQ(waits_of([&] { (void)torch::ones({3}).to(device()); }), 1);
  EXPECT_EQ(waits_of([&] {
              torch::empty({3}).copy_(there, /*non_blocking=*/true);
              there.clone().add_(there.sum());
            }),
            0);
}

}  // namespace
}  // namespace kolo::testing::simulated
