// What is refused before a run begins.
#include "run/run_training.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>

#include "kolo/base/error.h"
#include "support/errors.h"

namespace kolo::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SyncBatchNormOfTheTrainer, IsRefusedWhereAModuleKeepsTheTypeOfItsBatchNorm) {
  struct Held final : torch::nn::Module {
    Held() { register_module("norm", norm); }
    torch::nn::BatchNorm2d norm{2};
  } held;
  ModelConfig config;
  config.name = "held";
  EXPECT_NO_THROW(require_batch_norms_to_synchronize(config, held));
  config.sync_batch_norm = true;
  EXPECT_THAT(message_of<InputError>([&] { require_batch_norms_to_synchronize(config, held); }),
              AllOf(HasSubstr("model.sync_batch_norm: norm (BatchNorm2d) in model held"),
                    HasSubstr("Sequential")));
  torch::nn::Sequential parts(torch::nn::BatchNorm2d(2));
  EXPECT_NO_THROW(require_batch_norms_to_synchronize(config, *parts));
}

}  // namespace
}  // namespace kolo::testing
