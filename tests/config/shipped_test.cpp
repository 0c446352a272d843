// The configurations that come with the program.
#include <algorithm>

#include <gmock/gmock.h>

#include "kolo/config/run_config.h"

namespace kolo {
namespace {

TEST(ShippedConfigurations, AllLoad) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(KOLO_CONFIGS)) {
    if (entry.path().extension() != ".yaml") continue;
    const auto stem = entry.path().stem().string();
    std::optional<std::string> name;      // of one of several
    if (stem == "unet3d") name = "tiny";  // all of its configurations have a test of their own
    if (stem == "tutorial") name = "warmup";
    if (stem == "airbench") name = "fashion_mnist";
    const RunConfig config = load_run_config({entry.path(), name, {}});
    EXPECT_FALSE(config.description.empty()) << entry.path();
    EXPECT_EQ(config.output_dir, "results/" + stem + (name ? "-" + *name : ""));
    ++count;
  }
  EXPECT_GE(count, 6);
}

TEST(ShippedConfigurations, ResnetHasTheTutorialsParameters) {
  const RunConfig config =
      load_run_config({std::filesystem::path(KOLO_CONFIGS) / "cifar10_resnet.yaml", {}, {}});
  EXPECT_EQ(config.training.batch_size, 64);
  EXPECT_EQ(config.training.n_epochs, 32);
  EXPECT_EQ(config.training.lr_warmup_epochs, 5);
  EXPECT_EQ(config.optimizer.name, "adam");
  EXPECT_EQ(config.optimizer.lr, 0.0001);
  EXPECT_EQ(config.optimizer.lr_scaling, Scaling::linear);
}

TEST(ShippedConfigurations, MnistNetHasTheTutorialsParameters) {
  const RunConfig config =
      load_run_config({std::filesystem::path(KOLO_CONFIGS) / "mnist_net.yaml", {}, {}});
  EXPECT_EQ(config.training.batch_size, 64);
  EXPECT_EQ(config.optimizer.name, "sgd");
  EXPECT_EQ(config.optimizer.lr, 0.01);
  EXPECT_THAT(settings_of(config),
              ::testing::Contains(::testing::Pair("optimizer.momentum", "0.5")));
}

}  // namespace
}  // namespace kolo
