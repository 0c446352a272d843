// Predictions of boxes, compared with one forward of the whole box.
#include "kolo/run/predict_run.h"

#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/conv.h>

#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/comm/threads.h"
#include "kolo/config/factories.h"
#include "kolo/data/array_file.h"
#include "kolo/nn/models.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/trainer.h"
#include "run/prediction.h"
#include "run/random_box.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;

// Network whose cells see the whole sample's mean.
class MeanNetwork final : public Network {
 public:
  MeanNetwork() : layer_(register_module("layer", torch::nn::Conv3d(4, 5, 1))) {}
  torch::Tensor forward(const torch::Tensor& input) override {
    return layer_(input - 3 * input.mean({2, 3, 4}, true));
  }

 private:
  torch::nn::Conv3d layer_;
};

// Makes outputs large enough to be compared.
std::shared_ptr<Network> loud_unet(const ModelOptions& options) {
  auto network = make_network("unet3d", options);
  const torch::NoGradGuard no_gradient;
  for (auto& parameter : network->parameters()) parameter.uniform_(-.25, .25);
  return network;
}

ModelDescription field_model(std::string name,
                             std::function<std::shared_ptr<Network>(const ModelOptions&)> make) {
  return {.name = std::move(name),
          .description = "makes fields",
          .make = std::move(make),
          .has_dropout = false,
          .has_batch_norm = false,
          .makes_fields = true};
}

class PredictRun : public ::testing::Test {
 protected:
  [[nodiscard]] static RunComponents components() {
    RunComponents components;
    components.models.add(field_model("loud", loud_unet));
    components.models.add(
        field_model("mean", [](const ModelOptions&) { return std::make_shared<MeanNetwork>(); }));
    return components;
  }

  void train(const std::string& model, const std::string& training = "") {
    const auto config = folder_.write(
        "fields.yaml",
        "data: {name: nbody, mode: synthetic, box_size: 16, crop: 16, n_train: 2, n_valid: 1}\n"
        "model: {" +
            model + "}\n" +
            "optimizer: {name: sgd, lr: 0.0001}\n"
            "training: {loss: l1, batch_size: 1, n_epochs: 1" +
            training + "}\n");
    fs::remove_all(run());
    const ConfigSource source{config, {}, {}, {}, run()};
    const auto never = [] { return false; };
    ASSERT_EQ(kolo::run(source, components(), {.console = &console_, .stop_requested = never}), 0);
  }

  [[nodiscard]] fs::path run() const { return folder_ / "run"; }
  [[nodiscard]] fs::path output() const { return folder_ / "gas.h5"; }

  // Writes a box, and returns the network's output for the whole of it, [5, N, N, N].
  [[nodiscard]] torch::Tensor expected_of_box(std::int64_t edge) const {
    auto box = random_box(edge, edge);
    write_box_hdf5(box, folder_ / "box.h5");
    const auto config = load_run_config({run() / "config.yaml"}, components().models);
    const auto network = make_network(config, SampleLayout{{4, 16, 16, 16}, 0, {5, 16, 16, 16}},
                                      components().models);
    const CheckpointStore store({run() / "checkpoints"});
    load_network(CheckpointStore::load(store.best().value().path).content, *network);
    network->eval();
    const torch::NoGradGuard no_gradient;
    const AutocastGuard guard(config.training.precision);
    return network->forward(torch::from_blob(box.nbody.data(), {1, 4, edge, edge, edge}))[0].to(
        torch::kFloat);
  }

  [[nodiscard]] torch::Tensor read_output(const fs::path& file) const {
    const BoxFile box(file, BoxFields::any);
    const auto edge = box.size();
    auto gas = torch::empty({5, edge, edge, edge});
    box.read_planes(BoxField::hydro, 0, edge,
                    {gas.data_ptr<float>(), static_cast<std::size_t>(gas.numel())});
    return gas;
  }

  // The request with this test's run and files where it names none.
  [[nodiscard]] PredictionRequest completed(PredictionRequest request) const {
    if (request.run.empty()) request.run = run();
    if (request.input.empty()) request.input = folder_ / "box.h5";
    if (request.output.empty()) request.output = output();
    return request;
  }

  RunPrediction predict(const PredictionRequest& wanted, int ranks = 1) {
    auto request = completed(wanted);
    request.replaces = true;
    RunPrediction result;
    run_as_threads(ranks, [&](const Communicator& communicator) {
      const auto take = [&](const RunPrediction& prediction) { result = prediction; };
      EXPECT_EQ(predict_run(request, take, components(),
                            {.console = &console_, .communicator = communicator}),
                0);
    });
    return result;
  }

  [[nodiscard]] std::string refusal(const PredictionRequest& request) const {
    return message_of<InputError>(
        [&] { (void)check_prediction(completed(request), components()); });
  }

  TemporaryFolder folder_;
  std::ostringstream console_;
};

double largest_difference(const torch::Tensor& one, const torch::Tensor& other) {
  return (one - other).abs().max().item<double>();
}

// Box and tile in multiples of 2^levels; a tile of 0: by memory.
struct TileCase {
  std::int64_t levels, blocks, tile;
  int ranks;
};

TEST_F(PredictRun, MakesOfTilesWhatTheNetworkMakesOfTheWhole) {
  std::int64_t trained = 0;
  for (const auto& [levels, blocks, tile, ranks] :
       {TileCase{1, 1, 0, 1}, TileCase{1, 4, 1, 2}, TileCase{1, 7, 2, 3}, TileCase{2, 1, 1, 2},
        TileCase{2, 4, 0, 2}, TileCase{2, 5, 1, 3}, TileCase{2, 7, 3, 1}, TileCase{3, 4, 1, 2},
        TileCase{3, 4, 9, 1}}) {
    if (trained != levels) train(fmt::format("name: loud, levels: {}, channels: 2", levels));
    trained = levels;
    const auto multiple = std::int64_t{1} << levels;
    const auto expected = expected_of_box(blocks * multiple);
    EXPECT_GT(expected.abs().max().item<double>(), .05) << "there is something to compare";
    PredictionRequest request;
    if (tile > 0) request.tile = tile * multiple;
    const auto prediction = predict(request, ranks);
    const auto where = fmt::format("{} levels, {} blocks, tiles of {}", levels, blocks, tile);
    const auto& made = std::get<PredictedBox>(prediction.what);
    const auto cores = tile == 0 ? 0 : (blocks + tile - 1) / tile;
    if (tile > 0) {
      EXPECT_EQ(made.tiles, cores * cores * cores) << where;
    }
    EXPECT_EQ(made.size, blocks * multiple);
    EXPECT_EQ(prediction.ranks, ranks);
    EXPECT_GT(prediction.peak_memory, 0U);
    EXPECT_LT(largest_difference(read_output(output()), expected), 1e-5) << where;
  }
}

TEST_F(PredictRun, IsTheSameForEachNumberOfRanks) {
  train("name: loud, levels: 2, channels: 4");
  const auto expected = expected_of_box(40);
  std::int64_t tiles = 0;
  for (const int ranks : {1, 2, 3}) {
    const auto planned = std::get<PredictedBox>(predict({}, ranks).what).tiles;
    EXPECT_EQ(planned == 1, ranks == 1) << "there is room for the whole";
    EXPECT_GE(planned, tiles);
    tiles = planned;
    EXPECT_LT(largest_difference(read_output(output()), expected), 1e-5) << ranks;
  }
  const auto attributes = read_hdf5_attributes(output());
  ASSERT_EQ(attributes.size(), 1U);
  EXPECT_EQ(attributes.at("seed"), 40.);
}

TEST_F(PredictRun, ReadsAndWritesEachFormat) {
  train("name: loud, levels: 2, channels: 4");
  write_box_npy(random_box(16, 16), folder_ / "pair");
  fs::remove(folder_ / "pair_label.npy");
  fs::copy_file(folder_ / "pair_data.npy", folder_ / "dark.npy");
  const auto expected = expected_of_box(16);
  for (const auto& [input, made] : {std::pair("pair", "gas.h5"),
                                    {"pair_data.npy", "gas.hdf5"},
                                    {"dark.npy", "gas_label.npy"},
                                    {"box.h5", "gas_label.npy"}}) {
    (void)predict({.input = folder_ / input, .output = folder_ / made, .tile = 8}, 2);
    EXPECT_LT(largest_difference(read_output(folder_ / made), expected), 1e-5)
        << input << " to " << made;
  }
}

TEST_F(PredictRun, HonoursTheRunsPrecision) {
  train("name: loud, levels: 2, channels: 4", ", precision: bf16");
  const auto expected = expected_of_box(16);
  (void)predict({});
  EXPECT_LT(largest_difference(read_output(output()), expected), 1e-6);
  (void)predict({.overrides = {"training.precision=fp32"}});
  const auto difference = largest_difference(read_output(output()), expected);
  EXPECT_GT(difference, 1e-5);
  EXPECT_LT(difference, .1);
}

TEST_F(PredictRun, TakesTheBoxWholeWhereHowFarANetworkSeesIsNotKnown) {
  train("name: mean");
  const auto expected = expected_of_box(10);
  EXPECT_EQ(std::get<PredictedBox>(predict({}, 2).what).tiles, 1);
  EXPECT_LT(largest_difference(read_output(output()), expected), 1e-5);
  EXPECT_TRUE(says(refusal({.tile = 5}), {"mean doesn't tell how far its outputs see"}));
}

// Plans tiles of 128^3 cells, of which a rank can hold some.
TEST(PlanTiles, GoesByTheMemoryThereIs) {
  const AxisReach reach{15, 15, 8};
  const auto cells_of = [](double edge) { return edge * edge * edge; };
  const auto tiles_with_room_for = [&](double edge, int ranks) {
    const auto room = .7 * static_cast<double>(available_memory().value());
    std::vector<Tile> planned;
    run_as_threads(ranks, [&](const Communicator& communicator) {
      const auto tiles =
          plan_tiles(communicator, torch::kCPU,
                     {.size = 128, .reach = reach, .bytes_per_cell = room / cells_of(edge)});
      if (communicator.rank() == 0) planned = tiles;
    });
    return planned;
  };
  EXPECT_EQ(tiles_with_room_for(200, 1).size(), 1U);
  for (const int ranks : {1, 2}) {
    const auto tiles = tiles_with_room_for(80, ranks);
    ASSERT_GT(tiles.size(), 1U);
    // The machine's free memory varies.
    for (const auto& tile : tiles)
      EXPECT_LT(static_cast<double>(tile.cells()), 2 * cells_of(80) / ranks);
  }
  EXPECT_TRUE(says(message_of<Error>([&] { (void)tiles_with_room_for(10, 1); }),
                   {"the smallest tiles read 40^3 cells", "--tile 8"}));
}

TEST_F(PredictRun, RefusesWhatItCantDoAndWritesNothing) {
  train("name: loud, levels: 3, channels: 2");
  write_box_hdf5(random_box(16, 1), folder_ / "box.h5");
  write_box_hdf5(random_box(20, 1), folder_ / "odd.h5");
  fs::create_directory(folder_ / "folder.h5");
  EXPECT_TRUE(says(refusal({.input = folder_ / "odd.h5"}), {"20^3", "multiples of 8", "16 or 24"}));
  EXPECT_TRUE(says(refusal({.tile = 12}), {"--tile 12", "use 8 or 16"}));
  EXPECT_TRUE(says(refusal({.input = folder_ / "none.h5"}), {"there is neither"}));
  EXPECT_TRUE(says(refusal({.run = folder_.path()}), {"predict: " + folder_.path().string()}));
  EXPECT_TRUE(says(refusal({.checkpoint = "7"}), {"no checkpoint of step 7"}));
  EXPECT_TRUE(says(refusal({.output = folder_ / "gas.csv"}), {"ends in .h5, .hdf5, .npy"}));
  EXPECT_TRUE(says(refusal({.output = folder_ / "none/gas.h5"}), {"there is no folder"}));
  EXPECT_TRUE(says(refusal({.output = folder_ / "odd.h5"}), {"--force"}));
  for (const auto& [name, words] :
       {std::pair("box.h5", "what is read"), {"folder.h5", "it is a folder"}})
    EXPECT_TRUE(says(refusal({.output = folder_ / name, .replaces = true}), {words}));
  EXPECT_FALSE(fs::exists(output()));
}

// Network that leaves out the last plane of another.
class ShortNetwork final : public Network {
 public:
  explicit ShortNetwork(std::shared_ptr<Network> whole) : whole_(std::move(whole)) {
    for (const auto& child : whole_->named_children()) register_module(child.key(), child.value());
  }
  torch::Tensor forward(const torch::Tensor& input) override {
    return whole_->forward(input).narrow(2, 0, input.size(2) - 1);
  }

 private:
  std::shared_ptr<Network> whole_;
};

// The prediction fails once the file is begun.
TEST_F(PredictRun, LeavesNothingAfterAFailure) {
  train("name: loud, levels: 1, channels: 2");
  write_box_hdf5(random_box(8, 1), folder_ / "box.h5");
  auto failing = components();
  failing.models = ModelCatalogue();
  failing.models.add(field_model("loud", [](const ModelOptions& options) {
    return std::make_shared<ShortNetwork>(loud_unet(options));
  }));
  const PredictionRequest request{.run = run(), .input = folder_ / "box.h5", .output = output()};
  const RunOptions options{.console = &console_, .communicator = Communicator::solo()};
  EXPECT_TRUE(says(message_of<Error>([&] {
                     (void)predict_run(
                         request, [](const RunPrediction&) { ADD_FAILURE(); }, failing, options);
                   }),
                   {"makes [1, 5, 7, 8, 8] of a tile, expected [1, 5, 8, 8, 8]"}));
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    EXPECT_FALSE(says(entry.path().filename().string(), {"gas"}));
}

}  // namespace
}  // namespace kolo::testing
