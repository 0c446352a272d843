#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/parallel/device_mesh.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

// The ranks of the world that a communicator connects, in its order.
std::vector<int> members(const DeviceMesh& mesh, const Communicator& group) {
  const int mine = mesh.world().rank();
  std::vector<int> all(static_cast<std::size_t>(group.size()));
  group.all_gather(std::span(&mine, 1), std::span(all));
  return all;
}

// The same ranks, according to the shape.
std::vector<int> expected_members(const DeviceMesh& mesh, std::span<const MeshAxis> axes) {
  const auto colour_of = [&](int rank) { return mesh.shape().split_of(rank, axes).colour; };
  std::vector<int> group;
  for (int rank = 0; rank < mesh.world().size(); ++rank)
    if (colour_of(rank) == colour_of(mesh.world().rank())) group.push_back(rank);
  return group;
}

void expect_groups(const DeviceMesh& mesh) {
  const auto rank = mesh.world().rank();
  for (std::size_t i = 0; i < mesh_axes; ++i) {
    const auto axis = static_cast<MeshAxis>(i);
    EXPECT_EQ(mesh.axis(axis).rank(), mesh.coordinate(axis));
    EXPECT_EQ(mesh.coordinate(axis), mesh.shape().coordinates_of(rank)[i]);
    EXPECT_EQ(members(mesh, mesh.axis(axis)), expected_members(mesh, std::span(&axis, 1)));
  }
  EXPECT_EQ(members(mesh, mesh.spatial()), expected_members(mesh, spatial_axes));
  EXPECT_EQ(members(mesh, mesh.replicas()), expected_members(mesh, replica_axes));
}

RANK_TEST(DeviceMesh, GroupsAreTheShapes) {
  const std::int64_t ranks = communicator.size();
  expect_groups(DeviceMesh(communicator));
  expect_groups(DeviceMesh(communicator, {.spatial = {1, ranks}}));
  if (ranks % 2 != 0) return;
  expect_groups(DeviceMesh(communicator, {.spatial = {2, 1, 1}}));
  expect_groups(DeviceMesh(communicator, {.spatial = {ranks / 2}, .pipeline = 2}));
  expect_groups(DeviceMesh(communicator, {.spatial = {1, 1, 2}, .tensor = ranks / 2}));
}

RANK_TEST(DeviceMesh, ARequestThatDoesNotFitIsOneError) {
  const auto ranks = communicator.size();
  const auto message = message_of<InputError>([&] {
    const DeviceMesh mesh(communicator, {.spatial = {ranks + 1, 1}});
  });
  EXPECT_TRUE(says(message, {"start " + std::to_string(ranks + 1) + " ranks"}));
}

RANK_TEST(DeviceMesh, DifferentRequestsAreAnErrorOnAllRanks) {
  if (communicator.size() == 1) return;
  const bool is_last = communicator.rank() == communicator.size() - 1;
  const auto message = message_of<Error>([&] {
    const DeviceMesh mesh(communicator, {.spatial = {is_last ? communicator.size() : 1}});
  });
  EXPECT_TRUE(says(message, {"rank 0 asks for the lengths"}));
  EXPECT_TRUE(says(message, {"rank " + std::to_string(communicator.size() - 1)}));
}

RANK_TEST(DeviceMesh, ItsGroupsShareNoOrderWithTheWorld) {
  if (!communicator.capabilities().concurrent || !communicator.capabilities().asynchronous) return;
  const DeviceMesh mesh(communicator, {.spatial = {communicator.size()}});
  float first = 1, second = 2;
  // Every rank calls the two in an order of its own.
  const auto spatial = [&] { return mesh.spatial().all_reduce_async(std::span(&first, 1)); };
  const auto world = [&] { return communicator.all_reduce_async(std::span(&second, 1)); };
  std::vector<Work> works;
  if (communicator.rank() % 2 == 0) {
    works = {spatial(), world()};
  } else {
    works = {world(), spatial()};
  }
  for (const auto& work : works) work.wait();
  EXPECT_EQ(first, communicator.size());
  EXPECT_EQ(second, 2 * communicator.size());
}

}  // namespace

}  // namespace kolo::testing
