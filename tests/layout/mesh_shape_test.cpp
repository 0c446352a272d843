#include "kolo/layout/mesh_shape.h"

#include <limits>
#include <map>
#include <random>
#include <set>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

std::string refusal(int ranks, const MeshRequest& request) {
  return message_of<InputError>([&] { (void)MeshShape(ranks, request); });
}

MeshRequest random_request(std::mt19937_64& random) {
  const auto length = [&random] { return static_cast<std::int64_t>(1 + random() % 3); };
  MeshRequest request{length(), {}, length(), length()};
  for (auto axes = random() % 4; axes > 0; --axes) request.spatial.push_back(length());
  return request;
}

int product_of(const MeshRequest& request) {
  auto product = request.data * request.pipeline * request.tensor;
  for (const auto length : request.spatial) product *= length;
  return static_cast<int>(product);
}

TEST(MeshShape, DataTakesWhatIsLeft) {
  EXPECT_EQ(MeshShape(12).length(MeshAxis::data), 12);
  const MeshShape mesh(12, {-1, {2, 1, 1}, 2, 1});
  EXPECT_EQ(mesh.length(MeshAxis::data), 3);
  EXPECT_EQ(mesh.length(MeshAxis::pipe), 2);
  EXPECT_EQ(mesh.length(MeshAxis::spatial0), 2);
  EXPECT_EQ(mesh.length(replica_axes), 6);
  EXPECT_EQ(mesh.describe(), "pipeline 2 x data 3 x spatial [2,1,1]");
  EXPECT_EQ(MeshShape(1).describe(), "data 1");
  EXPECT_EQ(MeshShape(8, {-1, {4}, 1, 2}).describe(), "spatial [4] x tensor 2");
}

TEST(MeshShape, TheSlowestAxisIsThePipeline) {
  const MeshShape mesh(16, {2, {2}, 2, 2});
  EXPECT_EQ(mesh.coordinates_of(9), (MeshCoordinates{1, 0, 0, 0, 0, 1}));
  EXPECT_EQ(mesh.split_of(9, replica_axes), (SplitKey{3, 0}));
  EXPECT_EQ(mesh.split_of(13, replica_axes), (SplitKey{3, 2}));
}

TEST(MeshShape, CoordinatesRoundTripAndGroupsPartitionTheRanks) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100; ++i) {
    const auto request = random_request(random);
    const auto ranks = product_of(request);
    const MeshShape mesh(ranks, request);
    SCOPED_TRACE(mesh.describe());
    std::vector<MeshAxis> axes;
    for (const auto& [axis, name] : enum_names(MeshAxis{})) {
      if (random() % 2 == 0) axes.push_back(axis);
    }
    std::map<int, std::vector<int>> members;  // by colour
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(mesh.rank_of(mesh.coordinates_of(rank)), rank);
      const auto position = mesh.split_of(rank, axes);
      auto& group = members[position.colour];
      EXPECT_EQ(position.key, static_cast<int>(group.size()));
      group.push_back(rank);
    }
    EXPECT_EQ(static_cast<int>(members.size()), ranks / mesh.length(axes));
    EXPECT_EQ(members.rbegin()->first, static_cast<int>(members.size()) - 1);
    for (const auto& [colour, group] : members) {
      EXPECT_EQ(static_cast<int>(group.size()), mesh.length(axes));
      // Along all other axes the ranks of a group are in one place.
      for (const auto& [axis, name] : enum_names(MeshAxis{})) {
        if (std::ranges::find(axes, axis) != axes.end()) continue;
        std::set<int> positions;
        for (const auto rank : group) {
          positions.insert(mesh.coordinates_of(rank)[static_cast<std::size_t>(axis)]);
        }
        EXPECT_EQ(positions.size(), 1U) << name;
      }
    }
  }
}

TEST(MeshShape, SaysWhatWouldFit) {
  EXPECT_EQ(refusal(6, {-1, {2, 1, 1}, 2, 1}),
            "parallel: 6 ranks, but spatial [2,1,1] x pipeline 2 takes a multiple of 4; start 4 or "
            "8 ranks");
  EXPECT_EQ(refusal(3, {-1, {}, 4, 1}),
            "parallel: 3 ranks, but pipeline 4 takes a multiple of 4; start 4 ranks");
  EXPECT_EQ(refusal(6, {2, {}, 1, 2}),
            "parallel: 6 ranks, but data 2 x tensor 2 takes 4; start 4 ranks, or set data to 3 or "
            "-1");
  EXPECT_EQ(refusal(6, {2, {2, 2, 1}, 1, 1}),
            "parallel: 6 ranks, but data 2 x spatial [2,2,1] takes 8; start 8 ranks");
  EXPECT_EQ(refusal(2, {1, {}, 1, 1}),
            "parallel: 2 ranks, but data 1 takes 1; start 1 rank, or set data to 2 or -1");
}

TEST(MeshShape, RefusesWhatIsNoLength) {
  EXPECT_EQ(refusal(6, {0, {}, 1, 1}),
            "parallel: data is 0, expected 1 or more, or -1 for what the others leave");
  EXPECT_EQ(refusal(6, {-1, {}, 0, 1}), "parallel: pipeline is 0, expected 1 or more");
  EXPECT_EQ(refusal(6, {-1, {}, 1, -1}), "parallel: tensor is -1, expected 1 or more");
  EXPECT_EQ(refusal(6, {-1, {2, 0}, 1, 1}),
            "parallel: spatial is [2,0], expected 1 or more along each axis");
  EXPECT_EQ(refusal(6, {-1, {1, 1, 1, 1}, 1, 1}),
            "parallel: spatial [1,1,1,1] has 4 axes, expected at most 3");
  constexpr auto huge = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(says(refusal(6, {-1, {huge, 2}, 1, 1}), {"more ranks than can be counted"}));
  EXPECT_TRUE(says(refusal(6, {-1, {huge}, 1, 1}), {"takes a multiple of"}));
}

TEST(MeshShape, RefusesRanksOutsideTheMesh) {
  EXPECT_TRUE(says(message_of<Error>([] { (void)MeshShape(0); }), {"a mesh of 0 ranks"}));
  EXPECT_TRUE(says(message_of<Error>([] { (void)MeshShape(2).coordinates_of(2); }),
                   {"rank 2 of a mesh of 2 ranks"}));
  const MeshCoordinates outside{0, 2, 0, 0, 0, 0};
  EXPECT_TRUE(says(message_of<Error>([&] { (void)MeshShape(2).rank_of(outside); }),
                   {"coordinates [0,2,0,0,0,0] are outside a mesh of [1,2,1,1,1,1]"}));
}

}  // namespace
}  // namespace kolo::testing
