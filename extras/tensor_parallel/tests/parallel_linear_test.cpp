#include <string>

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include "kolo/base/error.h"
#include "kolo/tensor_parallel/group_functions.h"
#include "kolo/tensor_parallel/mesh_gradients.h"
#include "kolo/tensor_parallel/parallel_linear.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"
#include "tensor_cases.h"

namespace kolo::testing {

namespace {

constexpr std::int64_t in = 12, out = 24;

torch::nn::Linear reference_linear(bool bias, torch::ScalarType type) {
  torch::nn::Linear linear(torch::nn::LinearOptions(in, out).bias(bias));
  set_numbers(*linear);
  linear->to(type);
  return linear;
}

torch::Tensor loss_of(const torch::Tensor& output) {
  return (output * waves(output.sizes().vec(), .7, output.scalar_type()) + output.square()).sum();
}

// `forward` takes a replicated input to a replicated output through the layer.
template <typename Layer, typename Forward>
void expect_linear(const Communicator& group, Layer& layer, bool bias, torch::ScalarType type,
                   const Forward& forward, const std::string& what) {
  auto reference = reference_linear(bias, type);
  layer->to(type);
  set_whole_parameters(group, *layer, values_of(*reference, same_name));
  const auto input = waves({8, 3, in}, .4, type).requires_grad_();
  const auto expected = reference(input);
  loss_of(expected).backward();
  const auto own = input.detach().clone().requires_grad_();
  const auto output = forward(own);
  loss_of(output).backward();
  sum_sequence_gradients(group, *layer);
  const auto tolerance = tolerance_of(type);
  expect_close(output, expected, tolerance, what + ", output");
  expect_close(own.grad(), input.grad(), tolerance, what + ", gradient of the input");
  const auto gradients = whole_gradients(group, *layer);
  for (const auto& item : reference->named_parameters())
    expect_close(gradients[item.key()], item.value().grad(), tolerance, what + ", " + item.key());
}

RANK_TEST(ColumnParallelLinear, IsALinear) {
  const auto mesh = tensor_mesh(communicator);
  const auto& group = mesh.axis(MeshAxis::tensor);
  for (const auto type : {torch::kDouble, torch::kFloat}) {
    for (const bool bias : {true, false}) {
      ColumnParallelLinear gathering(group, in, out,
                                     ColumnParallelOptions{.bias = bias, .gather_output = true});
      expect_linear(
          group, gathering, bias, type,
          [&](const torch::Tensor& input) { return gathering(input); }, "gathered");
    }
    ColumnParallelLinear cut(group, in, out);
    expect_linear(
        group, cut, true, type,
        [&](const torch::Tensor& input) {
          const auto output = cut(input);
          EXPECT_EQ(output.size(-1), out / group.size());
          return gather_from_group(group, output);
        },
        "cut");
    ColumnParallelLinear on_parts(group, in, out, ColumnParallelOptions{.sequence_dimension = 0});
    expect_linear(
        group, on_parts, true, type,
        [&](const torch::Tensor& input) {
          const auto part = scatter_to_group(group, input, 0);
          return gather_from_group(group, on_parts(part));
        },
        "on parts of a sequence");
  }
}

RANK_TEST(RowParallelLinear, IsALinear) {
  const auto mesh = tensor_mesh(communicator);
  const auto& group = mesh.axis(MeshAxis::tensor);
  for (const auto type : {torch::kDouble, torch::kFloat}) {
    for (const bool bias : {true, false}) {
      RowParallelLinear scattering(group, in, out,
                                   RowParallelOptions{.bias = bias, .scatter_input = true});
      expect_linear(
          group, scattering, bias, type,
          [&](const torch::Tensor& input) { return scattering(input); }, "scattered");
    }
    RowParallelLinear cut(group, in, out);
    expect_linear(
        group, cut, true, type,
        [&](const torch::Tensor& input) { return cut(scatter_to_group(group, input)); }, "cut");
    RowParallelLinear to_parts(group, in, out, RowParallelOptions{.sequence_dimension = 0});
    expect_linear(
        group, to_parts, true, type,
        [&](const torch::Tensor& input) {
          const auto output = to_parts(scatter_to_group(group, input));
          EXPECT_EQ(output.size(0), input.size(0) / group.size());
          return gather_from_group(group, output, 0);
        },
        "to parts of a sequence");
  }
}

// One rank after another, because ranks that are threads share LibTorch's generator.
template <typename Make>
WholeParameters drawn_with_seed(const Communicator& group, const Make& make) {
  decltype(make()) layer{nullptr};
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank == group.rank()) {
      torch::manual_seed(17);
      layer = make();
    }
    group.barrier();
  }
  return whole_parameters(group, *layer);
}

RANK_TEST(ParallelLinear, BeginsAsALinearOfTheSameSeed) {
  const auto expected = drawn_with_seed(communicator, [] { return torch::nn::Linear(in, out); });
  const auto columns =
      drawn_with_seed(communicator, [&] { return ColumnParallelLinear(communicator, in, out); });
  const auto in_blocks = drawn_with_seed(communicator, [&] {
    return ColumnParallelLinear(communicator, in, out, ColumnParallelOptions{.blocks = 3});
  });
  const auto rows =
      drawn_with_seed(communicator, [&] { return RowParallelLinear(communicator, in, out); });
  // (A linear is not cut: its whole parameters are its own.)
  for (const auto& item : expected) {
    EXPECT_TRUE(torch::equal(columns[item.key()], item.value()));
    EXPECT_TRUE(torch::equal(in_blocks[item.key()], item.value()));
    EXPECT_TRUE(torch::equal(rows[item.key()], item.value()));
  }
}

RANK_TEST(ParallelLinear, BlocksAreCutEachByItself) {
  ColumnParallelLinear layer(communicator, 1, 12, ColumnParallelOptions{.blocks = 3});
  WholeParameters whole;
  whole.insert("weight", torch::arange(12, torch::kFloat).view({12, 1}));
  whole.insert("bias", torch::arange(12, torch::kFloat) + 100);
  set_whole_parameters(communicator, *layer, whole);
  const auto part = 4 / communicator.size();
  const auto own = layer->bias.detach().view({3, part}) - 100;
  for (std::int64_t block = 0; block < 3; ++block)
    EXPECT_EQ(own[block][0].item<float>(),
              static_cast<float>(4 * block + communicator.rank() * part));
  const auto again = whole_parameters(communicator, *layer);
  for (const auto& item : whole) EXPECT_TRUE(torch::equal(again[item.key()], item.value()));
}

RANK_TEST(ParallelLinear, WhatTheyRefuse) {
  const std::int64_t ranks = communicator.size();
  if (ranks > 1) {
    EXPECT_TRUE(says(
        message_of<InputError>([&] { ColumnParallelLinear layer(communicator, in, ranks + 1); }),
        {"make them a multiple of " + std::to_string(ranks)}));
    EXPECT_TRUE(
        says(message_of<InputError>([&] { RowParallelLinear layer(communicator, ranks + 1, out); }),
             {"input features"}));
  }
  if (ranks == 4) {
    EXPECT_TRUE(
        says(message_of<InputError>([&] { ColumnParallelLinear layer(communicator, in, 6); }),
             {"take 1 or 2 or 3 ranks"}));
  }
  EXPECT_TRUE(says(message_of<InputError>([&] {
                     ColumnParallelLinear layer(
                         communicator, in, 24,
                         ColumnParallelOptions{.blocks = 3, .gather_output = true});
                   }),
                   {"gather_output with 3 blocks"}));
  ColumnParallelLinear layer(communicator, in, out);
  EXPECT_TRUE(says(message_of<InputError>([&] {
                     layer(torch::ones({2, in + 1}));
                   }),
                   {"[2, 13], expected [..., 12]"}));
  WholeParameters whole;
  whole.insert("weight", torch::zeros({out, in}));
  EXPECT_TRUE(
      says(message_of<InputError>([&] { set_whole_parameters(communicator, *layer, whole); }),
           {"bias is missing, expected one of shape [24]"}));
  whole.insert("bias", torch::zeros({out + 1}));
  const auto before = layer->weight.detach().clone();
  EXPECT_TRUE(
      says(message_of<InputError>([&] { set_whole_parameters(communicator, *layer, whole); }),
           {"has the shape [25]"}));
  EXPECT_TRUE(torch::equal(layer->weight, before));
}

}  // namespace

}  // namespace kolo::testing
