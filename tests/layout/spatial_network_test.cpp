#include "kolo/layout/spatial_network.h"

#include <algorithm>
#include <random>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using Lengths = std::vector<std::int64_t>;

constexpr double mega_bytes_per_element = 4e-6;

// The 3-D U-Net of src/nn/models/unet3d.cpp: 4 channels in, 5 out, 64 to 512 in between.
std::vector<FieldLayer> unet() {
  const AxisLayer halving{.kernel = 4, .stride = 2, .padding = 1};
  auto doubling = halving;
  doubling.is_transposed = true;
  const Lengths channels{4, 64, 128, 256, 512, 512, 512};
  const std::size_t levels = channels.size() - 1;
  std::vector<FieldLayer> layers;
  for (std::size_t level = 1; level <= levels; ++level) {
    layers.push_back({.name = "down" + std::to_string(level),
                      .axes = {halving, halving, halving},
                      .inputs = channels[level - 1],
                      .outputs = channels[level]});
  }
  for (auto level = levels; level >= 1; --level) {
    const auto from_other_side = level == levels ? 0 : channels[level];
    layers.push_back({.name = "up" + std::to_string(level),
                      .axes = {doubling, doubling, doubling},
                      .inputs = channels[level] + from_other_side,
                      .outputs = level == 1 ? 5 : channels[level - 1],
                      .mirrors = level - 1});
  }
  return layers;
}

SpatialNetworkPlan plan_unet(std::int64_t length, const Lengths& shape) {
  return plan_spatial_network(unet(), Lengths{length, length, length}, shape);
}

double mega_bytes_sent(std::int64_t length, const Lengths& shape) {
  return mega_bytes_per_element *
         static_cast<double>(most_spatial_totals(plan_unet(length, shape)).halo_elements);
}

std::vector<std::string> whole_layers(const SpatialNetworkPlan& plan) {
  std::vector<std::string> names;
  for (std::size_t layer = 0; layer < plan.layers.size(); ++layer) {
    if (plan.is_whole(layer)) names.push_back(plan.layers[layer].name);
  }
  return names;
}

// Convolutions and transposed ones of small kernels, on one to three axes.
std::vector<FieldLayer> random_layers(std::mt19937_64& random, std::size_t axes) {
  const auto up_to = [&random](std::int64_t most) {
    return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  std::vector<FieldLayer> layers;
  auto channels = up_to(3);
  for (auto left = up_to(4); left > 0; --left) {
    FieldLayer layer{
        .name = "layer" + std::to_string(layers.size()), .inputs = channels, .outputs = up_to(4)};
    const bool is_transposed = random() % 3 == 0;
    for (std::size_t axis = 0; axis < axes; ++axis) {
      AxisLayer along{.kernel = up_to(4), .stride = up_to(2)};
      along.padding = (along.kernel - 1) / 2;
      along.is_transposed = is_transposed;
      layer.axes.push_back(along);
    }
    channels = layer.outputs;
    layers.push_back(std::move(layer));
  }
  return layers;
}

struct RandomNetwork {
  std::vector<FieldLayer> layers;
  Lengths lengths;
  Lengths shape;

  explicit RandomNetwork(std::mt19937_64& random) {
    const auto axes = 1 + random() % 3;
    layers = random_layers(random, axes);
    for (std::size_t axis = 0; axis < axes; ++axis) {
      lengths.push_back(12 + static_cast<std::int64_t>(random() % 12));
      shape.push_back(1 + static_cast<std::int64_t>(random() % 4));
    }
  }

  [[nodiscard]] SpatialNetworkPlan plan() const {
    return plan_spatial_network(layers, lengths, shape);
  }
};

TEST(SpatialNetwork, SaysWhichLevelsOfTheUNetAreComputedWhole) {
  const auto in_eight = plan_unet(64, {8, 1, 1});
  EXPECT_THAT(whole_layers(in_eight), ElementsAre("down4", "down5", "down6", "up6", "up5", "up4"));
  EXPECT_NEAR(in_eight.whole_fraction(), .15, .005);
  EXPECT_EQ(describe_whole_layers(in_eight), "down4 to up4, 15 % of the work");

  const auto in_four_and_two = plan_unet(64, {4, 2, 1});
  EXPECT_THAT(whole_layers(in_four_and_two), ElementsAre("down5", "down6", "up6", "up5"));
  EXPECT_NEAR(in_four_and_two.whole_fraction(), .03, .005);
  const auto down5 = std::size_t{4};
  EXPECT_TRUE(in_four_and_two.is_whole(down5, 0));
  EXPECT_FALSE(in_four_and_two.is_whole(down5, 1));

  EXPECT_EQ(describe_whole_layers(plan_unet(64, {2, 2, 2})), "down6 to up6, 0.25 % of the work");
  EXPECT_EQ(describe_whole_layers(plan_unet(512, {8, 1, 1})), "");
}

TEST(SpatialNetwork, CountsTheWorkOfTheUNet) {
  // 810 times 64 multiply-adds of two operations for each voxel: by level, both ways, 112 (32 and
  // 80), 384, 192, 96, 24 and 2 of them.
  constexpr std::int64_t voxels = 128 * 128 * 128;
  EXPECT_EQ(plan_unet(128, {1, 1, 1}).flops, 2 * 64 * 810 * voxels);
}

TEST(SpatialNetwork, CountsTheHalosOfTheUNet) {
  // 128^3 in two slabs send, by layer, a plane of its larger side, forward and, but for the
  // sample's, backward.
  constexpr std::int64_t one_way = 128 * 128 * 4 + 64 * 64 * 64 + 32 * 32 * 128 + 16 * 16 * 256 +
                                   8 * 8 * 512 + 4 * 4 * 512 +  // down
                                   4 * 4 * 512 + 8 * 8 * 512 + 16 * 16 * 256 + 32 * 32 * 128 +
                                   64 * 64 * 64 + 128 * 128 * 5;  // up
  const auto totals = most_spatial_totals(plan_unet(128, {2, 1, 1}));
  EXPECT_EQ(totals.halo_elements, 2 * one_way - 128 * 128 * 4);
  EXPECT_EQ(totals.halo_messages, 2 * 12 - 1);
  // In eight slabs of 512^3, where the planes are sixteen times as large, those between two others
  // send two of each.
  EXPECT_EQ(most_spatial_totals(plan_unet(512, {8, 1, 1})).halo_elements,
            2 * 16 * (2 * one_way - 128 * 128 * 4));
  EXPECT_NEAR(mega_bytes_sent(128, {2, 1, 1}), 9, .5);
  EXPECT_NEAR(mega_bytes_sent(512, {2, 2, 2}), 110.7, .05);
  EXPECT_NEAR(mega_bytes_sent(512, {8, 1, 1}), 285, .5);
}

TEST(SpatialNetwork, CountsWhatTheUNetKeeps) {
  constexpr double voxels = 128 * 128 * 128;
  const auto one = most_spatial_totals(plan_unet(128, {1, 1, 1}));
  EXPECT_NEAR(static_cast<double>(one.kept_elements) / voxels, 62, .5);
  EXPECT_NEAR(static_cast<double>(one.peak_elements) / voxels, 78, .5);
  // Half of it each, and a room for each convolution's input with a row more on both sides.
  const auto half = most_spatial_totals(plan_unet(128, {2, 1, 1}));
  constexpr std::int64_t planes =
      128 * 128 * 4 + 64 * 64 * 64 + 32 * 32 * 128 + 16 * 16 * 256 + 8 * 8 * 512 + 4 * 4 * 512;
  constexpr std::int64_t inputs = 64 * (128 * 128 * 4) + 32 * (64 * 64 * 64) +
                                  16 * (32 * 32 * 128) + 8 * (16 * 16 * 256) + 4 * (8 * 8 * 512) +
                                  2 * (4 * 4 * 512);
  EXPECT_EQ(half.kept_elements, one.kept_elements / 2 + inputs + 2 * planes);
  EXPECT_NEAR(inputs / voxels, 15. / 2, .2);

  // Half as many bytes with layers in bfloat16, but for targets and differences.
  const auto full = most_spatial_bytes(plan_unet(128, {2, 1, 1}), 4),
             mixed = most_spatial_bytes(plan_unet(128, {2, 1, 1}), 2);
  constexpr std::int64_t loss = 2 * 64 * (128 * 128 * 5);
  EXPECT_EQ(half.loss_elements, loss);
  EXPECT_EQ(full.kept, 4 * half.kept_elements);
  EXPECT_EQ(mixed.halo, full.halo / 2);
  EXPECT_EQ(mixed.kept, full.kept / 2 + 2 * loss);
  EXPECT_EQ(mixed.peak, full.peak / 2 + 2 * loss);

  auto joined_only = unet();
  for (auto& layer : joined_only) layer.keeps_output = layer.name[0] == 'd' || layer.name == "up1";
  const auto plan = plan_spatial_network(joined_only, Lengths{128, 128, 128}, Lengths{});
  EXPECT_NEAR(static_cast<double>(most_spatial_totals(plan).kept_elements) / voxels, 51, .5);
}

TEST(SpatialNetwork, GathersBeforeWholeLayersAlone) {
  const auto parts = spatial_layer_parts(plan_unet(64, {8, 1, 1}), 3);
  for (std::size_t layer = 0; layer < parts.size(); ++layer) {
    const auto expected = layer == 3 ? 1U : 0U;  // down4
    EXPECT_THAT(parts[layer].gathers, SizeIs(expected)) << layer;
  }
  // The input of down4 is 8^3 of 256 channels.
  EXPECT_THAT(parts[3].gathers, ElementsAre(HaloGather{0, 256 * 8 * 8 * 8}));
  EXPECT_EQ(parts[3].room_elements, 256 * 8 * 8 * 8);
  EXPECT_THAT(parts[3].forward, IsEmpty());
}

// Calls `visit(rank, layer, part)` for what each rank has of each layer.
template <typename Visit>
void for_each_part(const SpatialNetworkPlan& plan, const Visit& visit) {
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const auto parts = spatial_layer_parts(plan, rank);
    for (std::size_t layer = 0; layer < parts.size(); ++layer)
      visit(static_cast<std::size_t>(rank), layer, parts[layer]);
  }
}

TEST(SpatialNetwork, RoomsAreFilledByWhatIsReceived) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 100; ++round) {
    // Without padding a room has a rank's own rows and others', none beyond a border. Rows enough
    // that the last rank has some after the last layer.
    RandomNetwork network(random);
    for (auto& ranks : network.shape) ranks = std::max<std::int64_t>(2, ranks);
    for (auto& length : network.lengths) length += 24;
    for (auto& layer : network.layers) std::ranges::fill(layer.axes, AxisLayer{.kernel = 3});
    const auto plan = network.plan();
    std::vector<std::vector<std::int64_t>> received(static_cast<std::size_t>(plan.ranks()),
                                                    Lengths(plan.layers.size(), 0));
    for_each_part(plan, [&](std::size_t, std::size_t layer, const SpatialLayerPart& part) {
      for (const auto& message : part.forward)
        received[static_cast<std::size_t>(message.peer)][layer] += message.elements;
    });
    for_each_part(plan, [&](std::size_t rank, std::size_t layer, const SpatialLayerPart& part) {
      const auto from_others = received[rank][layer];
      EXPECT_EQ(part.room_elements, from_others > 0 ? part.input_elements + from_others : 0);
    });
  }
}

TEST(SpatialNetwork, RanksComputeEverythingOnceButForWholeLayers) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    const auto plan = RandomNetwork(random).plan();
    std::vector<std::int64_t> expected;
    for (std::size_t layer = 0; layer < plan.layers.size(); ++layer) {
      std::int64_t values = 2 * plan.layers[layer].inputs * plan.layers[layer].outputs;
      for (std::size_t axis = 0; axis < plan.shape.size(); ++axis) {
        const auto& cut = plan.cuts[layer][axis];
        values *= plan.layers[layer].axes[axis].kernel *
                  (cut.is_transposed ? cut.input : cut.output).length();
        if (plan.is_whole(layer, axis)) values *= plan.shape[axis];
      }
      expected.push_back(values);
    }
    Lengths computed(plan.layers.size(), 0);
    for_each_part(plan, [&](std::size_t, std::size_t layer, const SpatialLayerPart& part) {
      computed[layer] += part.flops;
    });
    EXPECT_EQ(computed, expected);
  }
}

TEST(SpatialNetwork, FindsTheMostThatAnyRankHas) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 200; ++round) {
    const auto plan = RandomNetwork(random).plan();
    const auto most = most_spatial_totals(plan);
    Lengths kept(static_cast<std::size_t>(plan.ranks()), 0), sent = kept;
    for_each_part(plan, [&](std::size_t rank, std::size_t, const SpatialLayerPart& part) {
      kept[rank] += part.output_elements;
      for (const auto* messages : {&part.forward, &part.backward})
        for (const auto& message : *messages) sent[rank] += message.elements;
    });
    EXPECT_GE(most.kept_elements, std::ranges::max(kept));
    EXPECT_EQ(most.halo_elements, std::ranges::max(sent));
  }
}

TEST(SpatialNetwork, AdvisesTheShapeWithTheLeastWorkComputedWhole) {
  const auto small = spatial_plans(unet(), Lengths{64, 64, 64}, 8);
  ASSERT_THAT(small, SizeIs(10));  // 8 as an ordered product of three
  EXPECT_THAT(small.front().shape, ElementsAre(2, 2, 2));
  EXPECT_EQ(small.back().whole_flops, plan_unet(64, {8, 1, 1}).whole_flops);
  EXPECT_TRUE(std::ranges::is_sorted(small, {}, &SpatialNetworkPlan::whole_flops));

  // Nothing is computed whole in either way: halos decide, then axes.
  EXPECT_THAT(spatial_plans(unet(), Lengths{512, 512, 512}, 8).front().shape, ElementsAre(2, 2, 2));
  EXPECT_THAT(spatial_plans(unet(), Lengths{512, 512, 512}, 2).front().shape, ElementsAre(2, 1, 1));
  EXPECT_THAT(spatial_plans(unet(), Lengths{64, 64, 512}, 2).front().shape, ElementsAre(1, 1, 2));
  const std::vector<FieldLayer> line{{.name = "line", .axes = {AxisLayer{.kernel = 3}}}};
  EXPECT_THAT(spatial_plans(line, Lengths{5}, 7), IsEmpty());
}

TEST(SpatialNetwork, RefusesWhatItCannotPlan) {
  const auto refusal = [](const Lengths& shape) {
    return message_of<InputError>([&] { (void)plan_unet(64, shape); });
  };
  EXPECT_TRUE(says(refusal({1, 2, 1, 2}), {"cuts 4 axes, but samples of [64, 64, 64] have 3"}));
  EXPECT_TRUE(says(refusal({128, 1, 1}), {"64 rows can't be cut among 128 ranks"}));
  auto layers = unet();
  const auto mistake = [&](const Lengths& lengths) {
    return message_of<Error>([&] { (void)plan_spatial_network(layers, lengths, Lengths{}); });
  };
  EXPECT_TRUE(says(mistake({64, 64}), {"down1 has 3 axes, samples have 2"}));
  layers[1].groups = 3;
  EXPECT_TRUE(says(mistake({64, 64, 64}), {"down2 takes 64 channels and makes 128 in 3 groups"}));
  EXPECT_TRUE(says(message_of<Error>([] {
                     (void)spatial_layer_parts(plan_unet(64, {2, 1, 1}), 2);
                   }),
                   {"rank 2 of 2"}));
}

}  // namespace
}  // namespace kolo::testing
