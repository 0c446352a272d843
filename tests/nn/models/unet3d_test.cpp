
#include <gmock/gmock.h>
#include <torch/nn/functional.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "kolo/base/error.h"
#include "kolo/layout/tiles.h"
#include "kolo/nn/models.h"
#include "nn/models/same_network.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

namespace functional = torch::nn::functional;

torch::Tensor plain_down(const Parameters& p, const std::string& name, const torch::Tensor& x) {
  const auto made = functional::conv3d(
      x, p[name + ".weight"],
      functional::Conv3dFuncOptions().bias(p[name + ".bias"]).stride(2).padding(1));
  return torch::leaky_relu(made, .01);
}

torch::Tensor plain_up(const Parameters& p, const std::string& name, const torch::Tensor& x) {
  return functional::conv_transpose3d(
      x, p[name + ".weight"],
      functional::ConvTranspose3dFuncOptions().bias(p[name + ".bias"]).stride(2).padding(1));
}

// The tutorial's network with four levels, written down layer by layer.
torch::Tensor plain_unet(const Parameters& p, torch::Tensor x) {
  const auto down1 = plain_down(p, "down1", x), down2 = plain_down(p, "down2", down1);
  const auto down3 = plain_down(p, "down3", down2), down4 = plain_down(p, "down4", down3);
  x = torch::cat({torch::relu(plain_up(p, "up4", down4)), down3}, 1);
  x = torch::cat({torch::relu(plain_up(p, "up3", x)), down2}, 1);
  x = torch::cat({torch::relu(plain_up(p, "up2", x)), down1}, 1);
  return torch::tanh(plain_up(p, "up1", x));
}

ModelOptions options_for(std::int64_t size, std::int64_t levels, std::int64_t channels) {
  return {.input_shape = {4, size, size, size},
          .output_shape = {5, size, size, size},
          .levels = levels,
          .channels = channels};
}

TEST(UNet3d, EqualsTheSameNetworkWrittenPlainly) {
  torch::manual_seed(1);
  const auto network = make_network("unet3d", options_for(16, 4, 3));
  testing::expect_same_network(*network, plain_unet, torch::randn({2, 4, 16, 16, 16}));
}

// 64 (4 + 4 * 64 ... channels) 4x4x4 taps and the biases, as added up from the tutorial's layers.
TEST(UNet3d, HasTheTutorialsParametersAtFullScaleAndStartsAsItDoes) {
  torch::manual_seed(3);
  const auto network =
      make_network("unet3d", {.input_shape = {4, 64, 64, 64}, .output_shape = {5, 64, 64, 64}});
  const std::int64_t taps = 64;
  const std::int64_t down = 4 * 64 + 64 * 128 + 128 * 256 + 256 * 512 + 512 * 512 + 512 * 512;
  const std::int64_t up = 512 * 512 + 1024 * 512 + 1024 * 256 + 512 * 128 + 256 * 64 + 128 * 5;
  const std::int64_t biases = (64 + 128 + 256 + 512 + 512 + 512) + (512 + 512 + 256 + 128 + 64 + 5);
  EXPECT_EQ(testing::parameter_count(*network), taps * (down + up) + biases);
  EXPECT_NEAR(static_cast<double>(testing::parameter_count(*network)), 117.0e6, .05e6);
  for (const auto& item : network->named_parameters()) {
    if (item.value().dim() == 1) {
      EXPECT_EQ(item.value().count_nonzero().item<std::int64_t>(), 0) << item.key();
    } else {
      EXPECT_NEAR(item.value().std().item<double>(), .02, .0005) << item.key();
    }
  }
}

TEST(UNet3d, WorksDownToASingleLevelAndOnAnyMultiple) {
  torch::manual_seed(4);
  const auto one = make_network("unet3d", options_for(2, 1, 2));
  EXPECT_EQ(one->forward(torch::randn({1, 4, 2, 2, 2})).sizes(),
            (std::vector<std::int64_t>{1, 5, 2, 2, 2}));
  const auto two = make_network(
      "unet3d",
      {.input_shape = {1, 8, 4, 12}, .output_shape = {2, 8, 4, 12}, .levels = 2, .channels = 3});
  const auto output = two->forward(torch::randn({3, 1, 8, 4, 12}));
  EXPECT_EQ(output.sizes(), (std::vector<std::int64_t>{3, 2, 8, 4, 12}));
  EXPECT_LE(output.abs().max().item<float>(), 1);
}

// The whole, and tiles of it put together, at the borders too.
void expect_tiles_to_make_the_whole(std::int64_t levels, std::int64_t blocks,
                                    const std::array<std::int64_t, 3>& core_blocks,
                                    torch::ScalarType type, double tolerance) {
  torch::manual_seed(40 + levels);
  const auto multiple = std::int64_t{1} << levels, edge = blocks * multiple;
  const auto network = make_network("unet3d", {.input_shape = {2, edge, edge, edge},
                                               .output_shape = {3, edge, edge, edge},
                                               .levels = levels,
                                               .channels = 3});
  network->to(type);
  for (auto& parameter : network->parameters()) parameter.data().uniform_(-.2, .2);
  const torch::NoGradGuard no_gradient;
  const auto input = torch::randn({1, 2, edge, edge, edge}, type);
  const auto whole = network->forward(input);
  const auto reach = reach_of(layers_along(network->field_layers(), 0));
  EXPECT_EQ(reach, (AxisReach{2 * multiple - 1, 2 * multiple - 1, multiple}));
  auto core = core_blocks;
  for (auto& rows : core) rows *= multiple;
  auto made = torch::full_like(whole, 9);
  const auto part = [](const torch::Tensor& of, const std::array<RowRange, 3>& rows,
                       const std::array<std::int64_t, 3>& from) {
    auto view = of;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const auto dimension = static_cast<std::int64_t>(axis) + 2;
      view = view.narrow(dimension, rows[axis].begin - from[axis], rows[axis].size());
    }
    return view;
  };
  for (const auto& tile : cut_in_tiles(edge, core, reach)) {
    const auto output = network->forward(part(input, tile.read, {}).contiguous());
    part(made, tile.core, {})
        .copy_(
            part(output, tile.core, {tile.read[0].begin, tile.read[1].begin, tile.read[2].begin}));
  }
  EXPECT_LT((made - whole).abs().max().item<double>(), tolerance)
      << levels << " levels, " << edge << " cells";
  EXPECT_GT(whole.abs().max().item<double>(), .05) << "there is something to compare";
}

TEST(UNet3d, MakesOfTilesWhatItMakesOfTheWhole) {
  for (const auto& [type, tolerance] :
       {std::pair{torch::kFloat, 1e-5}, std::pair{torch::kDouble, 1e-12}}) {
    expect_tiles_to_make_the_whole(1, 7, {2, 3, 1}, type, tolerance);
    expect_tiles_to_make_the_whole(2, 7, {1, 2, 7}, type, tolerance);
    expect_tiles_to_make_the_whole(3, 6, {1, 6, 2}, type, tolerance);
    expect_tiles_to_make_the_whole(4, 4, {1, 4, 4}, type, tolerance);
  }
}

TEST(UNet3d, RefusesShapesThatDontFit) {
  const auto message = [](const ModelOptions& options) {
    return message_of<InputError>([&] { (void)make_network("unet3d", options); });
  };
  EXPECT_TRUE(says(message({.input_shape = {4, 32, 32, 32}, .output_shape = {5, 32, 32, 32}}),
                   {"set model.levels to 5 or less"}));
  EXPECT_TRUE(says(message({.input_shape = {4, 64, 64, 64}, .output_shape = {5, 32, 64, 64}}),
                   {"with the same lengths"}));
  EXPECT_TRUE(says(message({.input_shape = {3, 32, 32}, .classes = 10}), {"makes fields"}));
  EXPECT_TRUE(says(message(options_for(16, 0, 16)),
                   {"levels: expected a whole number greater than 0, got \"0\""}));
  EXPECT_TRUE(says(message(options_for(16, 4, 0)),
                   {"channels: expected a whole number greater than 0, got \"0\""}));
  const ModelOptions fields{.input_shape = {4, 16, 16, 16}, .output_shape = {5, 16, 16, 16}};
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)make_network("cnn", fields); }),
                   {"for fields unet3d"}));
}

}  // namespace
}  // namespace kolo::testing
