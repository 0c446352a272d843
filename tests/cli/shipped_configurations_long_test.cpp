// The networks for CIFAR-10 and ImageNet learn, end to end through the binary.
#include <cmath>

#include <gmock/gmock.h>

#include "cli/program.h"
#include "cli/shipped_configurations.h"

namespace kolo::testing {
namespace {

// The short version of the run in docs/inside/results.md; guessing gets 10 %, this 35 %.
TEST_F(ShippedConfigurations, ResNetLearnsTheStandInForCifar10) {
  make("cifar10", "250");
  const auto history =
      train("cifar10_resnet.yaml", {"data.path=" + data, "data.n_valid=1000", "training.n_epochs=3",
                                    "training.batch_size=16", "training.lr_warmup_epochs=0",
                                    "training.lr_decay=one_cycle", "optimizer.lr=0.0005"});
  EXPECT_GT(history.epochs().back().val_accuracy, .25);
}

TEST_F(ShippedConfigurations, ResNet50LearnsFromJpegFilesAt224) {
  make("images", "10");
  const auto history = train(
      "imagenet_resnet.yaml",
      {"data.train_dir=" + data + "/train", "data.valid_dir=" + data + "/valid", "data.n_train=8",
       "data.n_valid=2", "model.n_classes=10", "training.n_epochs=1", "training.batch_size=4"});
  ASSERT_EQ(history.epochs().size(), 2U);  // and before the first
  EXPECT_TRUE(std::isfinite(history.epochs()[1].loss));
  EXPECT_TRUE(std::isfinite(history.epochs()[1].val_loss));
  EXPECT_EQ(run_kolo({"eval", (folder / "run").string(), "-n", "2"}).exit_code, 0);
}

}  // namespace
}  // namespace kolo::testing
