#include <functional>
#include <vector>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/tensor_parallel/group_functions.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"
#include "tensor_cases.h"

namespace kolo::testing {

namespace {

using Function = std::function<torch::Tensor(const torch::Tensor&)>;

// Factor that rank r multiplies by.
torch::Tensor factor_of(int rank) {
  return waves({4, 8}, .3 + rank) + 1;
}

torch::Tensor sum_of_factors(int ranks) {
  auto sum = factor_of(0);
  for (int rank = 1; rank < ranks; ++rank) sum = sum + factor_of(rank);
  return sum;
}

// Value, first and second derivatives of a replicated output, curved, on every rank.
std::vector<torch::Tensor> derivatives(const Function& function) {
  const auto input = waves({4, 8}, 1.1).requires_grad_();
  const auto output = function(input);
  const auto loss = (output.pow(3) * waves({4, 8}, .9)).sum();
  const auto first = torch::autograd::grad({loss}, {input}, {}, true, true)[0];
  const auto second = torch::autograd::grad({first.square().sum()}, {input})[0];
  return {output, first, second};
}

void expect_alike(const Function& function, const Function& reference) {
  const auto actual = derivatives(function), expected = derivatives(reference);
  for (std::size_t i = 0; i < expected.size(); ++i)
    expect_close(actual[i], expected[i], 1e-12, "derivative " + std::to_string(i));
}

RANK_TEST(GroupFunctions, CopyAndReduceAddUpWhatRanksMake) {
  const auto mesh = tensor_mesh(communicator);
  const auto& group = mesh.axis(MeshAxis::tensor);
  expect_alike(
      [&](const torch::Tensor& input) {
        return reduce_from_group(group, copy_to_group(group, input) * factor_of(group.rank()));
      },
      [&](const torch::Tensor& input) { return input * sum_of_factors(group.size()); });
}

RANK_TEST(GroupFunctions, ScatterAndGatherAreInverse) {
  const auto mesh = tensor_mesh(communicator);
  const auto& group = mesh.axis(MeshAxis::tensor);
  for (const std::int64_t dimension : {0, 1, -1}) {
    expect_alike(
        [&](const torch::Tensor& input) {
          const auto part = scatter_to_group(group, input, dimension);
          EXPECT_EQ(part.size(dimension), input.size(dimension) / group.size());
          return gather_from_group(group, part.pow(2), dimension);
        },
        [](const torch::Tensor& input) { return input.pow(2); });
  }
}

RANK_TEST(GroupFunctions, AllGatherAndReduceScatterAreForParts) {
  const auto mesh = tensor_mesh(communicator);
  const auto& group = mesh.axis(MeshAxis::tensor);
  for (const std::int64_t dimension : {0, 1}) {
    expect_alike(
        [&](const torch::Tensor& input) {
          const auto part = scatter_to_group(group, input, dimension).pow(2);
          const auto whole = all_gather_to_group(group, part, dimension) * factor_of(group.rank());
          const auto sum = reduce_scatter_from_group(group, whole, dimension);
          return gather_from_group(group, sum, dimension);
        },
        [&](const torch::Tensor& input) { return input.pow(2) * sum_of_factors(group.size()); });
  }
}

RANK_TEST(GroupFunctions, ALengthThatDoesNotDivideIsRefused) {
  if (communicator.size() == 1) return;
  const auto tensor = torch::ones({2 * communicator.size() + 1});
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)scatter_to_group(communicator, tensor); }),
                   {"make it a multiple of " + std::to_string(communicator.size())}));
  EXPECT_TRUE(says(
      message_of<InputError>([&] { (void)reduce_scatter_from_group(communicator, tensor, 0); }),
      {"dimension 0"}));
}

}  // namespace

}  // namespace kolo::testing
