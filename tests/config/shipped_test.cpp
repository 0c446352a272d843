// The configurations that come with the program.
#include <algorithm>

#include <gtest/gtest.h>

#include "kolo/config/run_config.h"

namespace kolo {
namespace {

TEST(ShippedConfigurations, AllLoad) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(KOLO_CONFIGS)) {
    if (entry.path().extension() != ".yaml") continue;
    const RunConfig config = load_run_config({entry.path(), {}, {}});
    EXPECT_FALSE(config.description.empty()) << entry.path();
    EXPECT_EQ(config.output_dir, "results/" + entry.path().stem().string());
    ++count;
  }
  EXPECT_GE(count, 3);
}

TEST(ShippedConfigurations, MnistNetHasTheTutorialsParameters) {
  const RunConfig config =
      load_run_config({std::filesystem::path(KOLO_CONFIGS) / "mnist_net.yaml", {}, {}});
  EXPECT_EQ(config.training.batch_size, 64);
  EXPECT_EQ(config.optimizer.name, "sgd");
  EXPECT_EQ(config.optimizer.lr, 0.01);
  EXPECT_EQ(config.optimizer.momentum, 0.5);
}

}  // namespace
}  // namespace kolo
