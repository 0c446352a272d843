#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

#include "kolo/comm/threads.h"
#include "kolo/nn/models.h"
#include "kolo/run/run.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/observe/history.h"
#include "support/temporary_folder.h"

namespace kolo::testing {

// Runs on small fields, whose ranks are threads.
class FieldRuns : public ::testing::Test {
 protected:
  static constexpr double tolerance = 1e-5;

  // kolo's U-Net, with weights that don't come from LibTorch's generator, which ranks that are
  // threads share.
  static RunComponents ranges_of_threads() {
    RunComponents components;
    const auto made_by_one = std::make_shared<std::mutex>();
    components.models.add({.name = "field_net",
                           .description = "a U-Net",
                           .make =
                               [made_by_one](const ModelOptions& options) {
                                 const std::lock_guard lock(*made_by_one);
                                 auto network = make_network("unet3d", options);
                                 const torch::NoGradGuard no_gradient;
                                 int seed = 1;
                                 for (auto& parameter : network->parameters()) {
                                   const auto numbers = torch::sin(
                                       torch::arange(parameter.numel()) * (++seed * .37));
                                   parameter.copy_(numbers.view(parameter.sizes()) * .05);
                                 }
                                 return network;
                               },
                           .has_dropout = false,
                           .has_batch_norm = false,
                           .makes_fields = true});
    return components;
  }

  // Trains on so many ranks. Returns the console's text. `stop`: asked on rank 0 in each step; true
  // in one of them.
  std::string train(const std::string& folder, int ranks, std::vector<std::string> settings,
                    const std::optional<std::string>& resume = std::nullopt,
                    const std::function<bool()>& stop = {}) const {
    std::ostringstream console;
    const ConfigSource source{config_, {}, std::move(settings), {}, folder_ / folder};
    auto components = ranges_of_threads();
    components.datasets = datasets_;
    run_as_threads(ranks, [&](const Communicator& communicator) {
      const auto stops = [&] { return stop && communicator.rank() == 0 && stop(); };
      const RunOptions options{.resume = resume,
                               .console = &console,
                               .communicator = communicator,
                               .stop_requested = stops};
      EXPECT_EQ(kolo::run(source, components, options), stop ? 75 : 0);
    });
    return console.str();
  }

  [[nodiscard]] std::vector<double> losses(const std::string& folder) const {
    std::vector<double> values;
    const auto history = History::read(folder_ / folder / "history.json");
    for (const auto& epoch : history.epochs()) {
      if (epoch.epoch > 0) values.push_back(epoch.loss);
      values.push_back(epoch.val_loss);
    }
    for (const auto& step : history.steps()) values.push_back(step.loss);
    return values;
  }

  void expect_same_losses(const std::string& folder, const std::string& expected) const {
    const auto found = losses(folder), wanted = losses(expected);
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], wanted[i], tolerance * std::abs(wanted[i])) << i;
  }

  // Allows for other rounding in other batches. The gradient of l1 jumps where an output passes its
  // target, so one rounding may change more than its last digits.
  void expect_same_tensors(const std::vector<NamedTensor>& found,
                           const std::vector<NamedTensor>& wanted, bool to_the_bit,
                           double of_largest = 0) const {
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto &a = found[i].tensor, &b = wanted[i].tensor;
      EXPECT_EQ(found[i].name, wanted[i].name);
      ASSERT_EQ(a.sizes(), b.sizes()) << found[i].name;
      if (to_the_bit) {
        EXPECT_TRUE(torch::equal(a, b)) << found[i].name;
        continue;
      }
      const auto largest = b.abs().max().item<double>();
      EXPECT_TRUE(torch::allclose(a, b, 1e-4, 1e-6 + of_largest * largest))
          << found[i].name << ": " << (a - b).abs().max().item<double>() << " of " << largest;
    }
  }

  [[nodiscard]] Checkpoint newest(const std::string& folder) const {
    const CheckpointStore store({.folder = folder_ / folder / "checkpoints"});
    return store.load_newest([](const std::string&) {})->content;
  }
  [[nodiscard]] std::vector<NamedTensor> weights(const std::string& folder) const {
    return newest(folder).model;
  }

  // Uses SGD: Adam's first steps are as long for gradients that are mere rounding.
  static constexpr std::string_view written = R"(
data: {name: nbody, mode: synthetic, box_size: 40, crop: 32, n_train: 8, n_valid: 2}
model: {name: field_net, levels: 3, channels: 8}
optimizer: {name: sgd, momentum: 0.9, lr: 0.05, lr_scaling: none}
training: {loss: l1, global_batch_size: 4, n_epochs: 2, log_every: 1}
)";

  // Replaces the data of `written`.
  std::function<Datasets(const RunConfig&, const DataReading&)> datasets_;
  TemporaryFolder folder_;
  std::filesystem::path config_ = folder_.write("field.yaml", std::string(written));
};

}  // namespace kolo::testing
