// Data in memory that the ranks of a node share, and networks that begin from samples.
#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include "kolo/comm/threads.h"
#include "kolo/data/box_files.h"
#include "kolo/data/nbody.h"
#include "kolo/run/run.h"
#include "run/field_runs.h"
#include "run/work_share.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using ::testing::ElementsAre;

class SharedData : public FieldRuns {
 protected:
  std::string write_box(const std::string& name, std::uint64_t seed) {
    SimulationBox box{.size = 40};
    for (auto* const field : {&box.nbody, &box.hydro}) {
      const auto channels = field == &box.nbody ? nbody_channels : hydro_channels;
      field->resize(static_cast<std::size_t>(channels * 40 * 40 * 40));
      RandomDataset({{channels, 40, 40, 40}, 2, {}}, 1, seed++)
          .read(0, 0, {*field, {&label_, 1}, {}});
    }
    write_box_hdf5(box, folder_ / name);
    return folder_ / name;
  }
  std::vector<std::string> settings(const std::string& mode) {
    return {"data.mode=" + mode, "data.train_path=" + write_box("train.h5", 1),
            "data.valid_path=" + write_box("valid.h5", 3), "training.n_epochs=1"};
  }

 private:
  std::int64_t label_ = 0;
};

TEST_F(SharedData, TrainsToTheBitsOfCropsFromTheFile) {
  EXPECT_FALSE(says(train("file", 2, settings("lowmem")), {"of data in memory"}));
  EXPECT_TRUE(says(train("memory", 2, settings("inmem")),
                   {"of data in memory, once for the 2 ranks of a node"}));
  EXPECT_EQ(losses("memory"), losses("file"));
  EXPECT_FALSE(says(train("alone", 1, settings("inmem")), {"of data in memory"}));
  expect_same_losses("alone", "file");
}

TEST_F(SharedData, IsOneMemoryThatEachRankReadsAPartOf) {
  std::vector<const std::byte*> places(3);
  std::vector<std::vector<int>> reads(3);
  run_as_threads(3, [&](const Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    std::shared_ptr<std::byte> kept;
    Datasets datasets;
    for (const std::size_t bytes : {100, 1000}) {
      datasets.loads.push_back({bytes, [&, bytes](const auto& memory, int part, int parts) {
                                  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 64,
                                            0U);
                                  kept = memory;
                                  places[rank] = memory.get();
                                  reads[rank] = {part, parts};
                                  memory.get()[part] = static_cast<std::byte>(bytes % 100 + part);
                                }});
    }
    load_data(communicator, datasets);
    communicator.barrier();
    for (int part = 0; part < 3; ++part) EXPECT_EQ(kept.get()[part], static_cast<std::byte>(part));
    EXPECT_TRUE(datasets.loads.empty());
    EXPECT_TRUE(datasets.warnings.empty());
    communicator.barrier();
  });
  EXPECT_THAT(reads, ElementsAre(ElementsAre(0, 3), ElementsAre(1, 3), ElementsAre(2, 3)));
  EXPECT_EQ(std::ranges::count(places, places[0]), 3);
}

// Network whose first weights are the mean of the samples it was shown.
class ShownNetwork final : public Network {
 public:
  ShownNetwork()
      : layer_(register_module("layer", torch::nn::Linear(64, 4))),
        mean_(register_buffer("mean", torch::zeros({64}))) {}
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input) override {
    return layer_(input.flatten(1) - mean_);
  }
  [[nodiscard]] std::int64_t first_samples() const override { return 10; }
  void begin_with(const torch::Tensor& samples) override {
    const torch::NoGradGuard no_gradient;
    shown.push_back(samples.size(0));
    mean_.copy_(samples.flatten(1).mean(0));
    layer_->weight.copy_(mean_.expand({4, 64}));
  }

  std::vector<std::int64_t> shown;

 private:
  torch::nn::Linear layer_;
  torch::Tensor mean_;
};

TEST(FirstSamples, AreReadByRankZeroAndAllRanksGetWhatFollows) {
  const RandomDataset samples({{1, 8, 8}, 4, {}}, 30, 1);
  auto expected = torch::zeros({64});
  std::int64_t label = 0;
  for (std::int64_t index = 0; index < 10; ++index) {
    auto sample = torch::empty({64});
    samples.read(index, 0, {std::span(sample.data_ptr<float>(), 64), std::span(&label, 1), {}});
    expected += sample / 10;
  }
  std::vector<std::size_t> calls(3);
  run_as_threads(3, [&](const Communicator& communicator) {
    ShownNetwork network;
    show_first_samples(communicator, samples, network);
    calls[static_cast<std::size_t>(communicator.rank())] = network.shown.size();
    EXPECT_TRUE(network.named_buffers()["mean"].allclose(expected, 1e-5, 1e-5));
    EXPECT_TRUE(network.named_parameters()["layer.weight"][3].allclose(expected, 1e-5, 1e-5));
  });
  EXPECT_THAT(calls, ::testing::ElementsAre(1, 0, 0));
}

TEST(FirstSamples, AreFewerOfASmallDatasetAndTheTargetsMayBeNumbers) {
  ShownNetwork network;
  show_first_samples(Communicator::solo(), RandomDataset({{64}, 0, {3}}, 7, 1), network);
  EXPECT_THAT(network.shown, ::testing::ElementsAre(7));
}

TEST(FirstSamples, AreShownWhenARunBeginsAndNotWhenItGoesOn) {
  const TemporaryFolder folder;
  std::vector<std::shared_ptr<ShownNetwork>> networks;
  RunParts parts;
  parts.models.add({.name = "mean", .description = "one layer", .make = [&](const ModelOptions&) {
                      networks.push_back(std::make_shared<ShownNetwork>());
                      return networks.back();
                    }});
  parts.datasets = [](const RunConfig&, const DataReading&) {
    const auto samples = std::make_shared<RandomDataset>(SampleLayout{{1, 8, 8}, 4, {}}, 32, 1);
    return Datasets{samples, samples};
  };
  std::ostringstream console;
  RunOptions options;
  options.console = &console;
  options.stop_requested = [] { return false; };
  const auto config = folder.write(
      "mean.yaml", "{data: {name: fashion_mnist}, model: {name: mean}, optimizer: {name: sgd}}\n");
  const auto shown_by_run = [&](const std::string& epochs) {
    networks.clear();
    const ConfigSource source{config, {}, {"training.n_epochs=" + epochs}, {}, folder / "run"};
    EXPECT_EQ(kolo::run(source, parts, options), 0);
    std::size_t times = 0;
    for (const auto& network : networks) times += network->shown.size();
    return times;
  };
  EXPECT_EQ(shown_by_run("1"), 1U);
  options.resume = "newest";
  EXPECT_EQ(shown_by_run("2"), 0U);
}

}  // namespace
}  // namespace kolo::testing
