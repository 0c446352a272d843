#include <set>
#include <vector>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/tensor_parallel/part_dropout.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"
#include "tensor_cases.h"

namespace kolo::testing {

namespace {

std::vector<std::uint64_t> of_all_ranks(const Communicator& communicator, std::uint64_t mine) {
  const auto sent = static_cast<std::int64_t>(mine);
  std::vector<std::int64_t> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span(&sent, 1), std::span(all));
  return {all.begin(), all.end()};
}

RANK_TEST(MeshSeeds, AreAlikeWhereValuesAre) {
  for (std::int64_t tensor = 1; tensor <= communicator.size(); tensor *= 2) {
    const DeviceMesh mesh(communicator, {.tensor = tensor});
    const auto seeds = mesh_seeds(mesh, 5);
    const auto own = of_all_ranks(communicator, seeds.own);
    EXPECT_EQ(std::set(own.begin(), own.end()).size(), own.size());
    const auto replicated = of_all_ranks(communicator, seeds.replicated);
    EXPECT_EQ(replicated[0], 5U);
    std::set<std::uint64_t> groups(replicated.begin(), replicated.end());
    EXPECT_EQ(groups.size(), own.size() / static_cast<std::size_t>(tensor));
    for (const auto seed : of_all_ranks(mesh.axis(MeshAxis::tensor), seeds.replicated))
      EXPECT_EQ(seed, seeds.replicated);
  }
}

RANK_TEST(PartDropout, MasksAreThoseOfTheSeed) {
  const auto input = torch::ones({50, 40}).requires_grad_();
  PartDropout one(.25, 3), other(.25, 3), another(.25, 4);
  const auto output = one(input);
  EXPECT_TRUE(torch::equal(output, other(input)));
  EXPECT_FALSE(torch::equal(output, another(input)));
  EXPECT_FALSE(torch::equal(output, one(input)));
  one->seed(3);
  EXPECT_TRUE(torch::equal(output, one(input)));

  // 2 000 values: four standard deviations are 0.039.
  EXPECT_NEAR(output.ne(0).to(torch::kDouble).mean().item<double>(), .75, .039);
  EXPECT_TRUE(output.eq(0).logical_or(output.sub(1 / .75).abs().lt(1e-6)).all().item<bool>());
  output.sum().backward();
  EXPECT_TRUE(torch::equal(input.grad(), output));
  one->eval();
  EXPECT_TRUE(torch::equal(one(input), input));
}

RANK_TEST(PartDropout, AProbabilityOfOneIsRefused) {
  EXPECT_TRUE(
      says(message_of<InputError>([] { PartDropout layer(1., 3); }), {"a probability of 1"}));
}

}  // namespace

}  // namespace kolo::testing
