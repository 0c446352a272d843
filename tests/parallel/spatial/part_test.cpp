#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "kolo/base/error.h"
#include "kolo/parallel/spatial_part.h"
#include "parallel/spatial/spatial_cases.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

DeviceMesh mesh_along(const Communicator& communicator, std::vector<std::int64_t> spatial) {
  return DeviceMesh(communicator, {.data = 1, .spatial = std::move(spatial)});
}

RANK_TEST(SpatialPart, PartsMakeTheWhole) {
  on_meshes(communicator, [](const DeviceMesh& mesh, std::size_t axes, CounterRandom& random) {
    std::vector<std::int64_t> shape = {2, 3};
    for (const auto length : random_lengths(random, mesh, axes)) shape.push_back(length);
    const auto whole = waves(shape, .7);
    auto part = part_of(mesh, whole);
    part.tensor.requires_grad_();
    const auto gathered = whole_of(mesh, part);
    EXPECT_TRUE(torch::equal(gathered, whole));
    // Each rank looks at all of it, so each row's gradient comes from all of them.
    (gathered * gathered.detach()).sum().backward();
    EXPECT_LT(relative_difference(part.tensor.grad(), part.tensor.detach() * mesh.spatial().size()),
              1e-14);
  });
}

RANK_TEST(SpatialPart, HasTheRowsThatAreReadByThemselves) {
  const auto mesh = mesh_along(communicator, {1, communicator.size()});
  const std::vector<std::int64_t> lengths = {3, 2 * communicator.size() + 1};
  const auto rows = own_rows(mesh, lengths);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0], (RowRange{0, 3}));
  const auto whole = waves({1, 1, lengths[0], lengths[1]}, .3);
  EXPECT_TRUE(
      torch::equal(part_of(mesh, whole).tensor, whole.slice(3, rows[1].begin, rows[1].end)));
}

RANK_TEST(SpatialPart, ShapesThatCantBeCutAreOneErrorThatSaysWhatFits) {
  const std::int64_t ranks = communicator.size();
  if (ranks == 1) return;
  const auto mesh = mesh_along(communicator, {1, ranks});
  EXPECT_TRUE(says(message_of<InputError>([&] {
                     (void)part_of(mesh, torch::zeros({1, 1, 9, ranks - 1}));
                   }),
                   {"axis 1", "cut this axis in " + std::to_string(ranks - 1)}));
  EXPECT_TRUE(says(message_of<InputError>([&] {
                     (void)part_of(mesh, torch::zeros({1, 1, 99}));
                   }),
                   {"at most 1 spatial axes"}));
}

}  // namespace

}  // namespace kolo::testing
