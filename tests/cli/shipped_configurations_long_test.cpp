// The network for CIFAR-10 learns, end to end through the binary.
#include <gmock/gmock.h>

#include "cli/program.h"
#include "cli/shipped_configurations.h"

namespace kolo::testing {
namespace {

// The short version of the run in docs/results.md; guessing gets 10 %, this 35 %.
TEST_F(ShippedConfigurations, ResNetLearnsTheStandInForCifar10) {
  make("cifar10", "250");
  const auto history =
      train("cifar10_resnet.yaml", {"data.path=" + data, "data.n_valid=1000", "training.n_epochs=3",
                                    "training.batch_size=16", "training.lr_warmup_epochs=0",
                                    "training.lr_decay=one_cycle", "optimizer.lr=0.0005"});
  EXPECT_GT(history.epochs().back().val_accuracy, .25);
}

}  // namespace
}  // namespace kolo::testing
