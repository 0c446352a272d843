// Refusals before a run begins, and messages of exceptions.
#include <new>
#include <stdexcept>

#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/torch.h>

#include "kolo/base/error.h"
#include "run/prepared_run.h"
#include "run/rank_job.h"
#include "run/run_training.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

template <typename Step>
std::string said_of(const Step& step) {
  try {
    step();
  } catch (const std::exception& error) {
    return kolo::message_of(error);
  }
  return {};
}

TEST(MessageOf, ATorchErrorIsSaidWithoutAddresses) {
  const auto said = said_of([] { (void)torch::ones({2, 3}).matmul(torch::ones({2, 3})); });
  EXPECT_TRUE(says(said, {"2x3"}));
  EXPECT_EQ(said.find("frame #"), std::string::npos) << said;
  EXPECT_EQ(said.find("Exception raised"), std::string::npos) << said;
  const auto passed_on = said_of([] {
    try {
      (void)torch::ones({2, 3}).matmul(torch::ones({2, 3}));
    } catch (const std::exception& error) {
      throw std::runtime_error(error.what());
    }
  });
  EXPECT_EQ(passed_on, said);
}

TEST(MessageOf, WantOfMemoryIsSaidAlike) {
  const auto said = said_of([] { throw std::bad_alloc(); });
  EXPECT_TRUE(says(said, {"not enough memory"}));
  EXPECT_EQ(said_of([] { (void)torch::empty({std::int64_t{1} << 50}); }), said);
}

TEST(ANetworkThatIsTooLarge, IsRefusedWithWhatMakesItSo) {
  const TemporaryFolder folder;
  const auto file = folder.write("large.yaml",
                                 "data: {name: dummy, n_train: 8, n_valid: 8, input_shape: [8]}\n"
                                 "model: {name: mlp, hidden: [1000000]}\n"
                                 "optimizer: {name: sgd}\n"
                                 "training: {batch_size: 4}\n");
  const auto refused = [&](const std::string& setting) {
    return message_of<InputError>([&] {
      (void)prepare_run(load_run_config({file, {}, {setting}, {}, folder / "run"}), {}, {}, 1);
    });
  };
  EXPECT_TRUE(
      says(refused("data.input_shape=[1000000000]"),
           {"large.yaml:2: model.name: there is not enough memory for the network mlp of samples "
            "of [1000000000] and 10 classes, hidden=[1000000]",
            "make these smaller"}));
  EXPECT_TRUE(says(refused("data.input_shape=[1000000, 1000000, 1000000]"),
                   {"mlp of samples of [1000000, 1000000, 1000000]"}))
      << "the bytes can't be counted";
}

TEST(SyncBatchNormOfTheTrainer, IsRefusedWhereAModuleKeepsTheTypeOfItsBatchNorm) {
  struct Held final : torch::nn::Module {
    Held() { register_module("norm", norm); }
    torch::nn::BatchNorm2d norm{2};
  } held;
  ModelConfig config;
  config.name = "held";
  EXPECT_NO_THROW(require_batch_norms_to_synchronize(config, held));
  config.sync_batch_norm = true;
  EXPECT_TRUE(
      says(message_of<InputError>([&] { require_batch_norms_to_synchronize(config, held); }),
           {"model.sync_batch_norm: norm (BatchNorm2d) in model held", "Sequential"}));
  torch::nn::Sequential parts(torch::nn::BatchNorm2d(2));
  EXPECT_NO_THROW(require_batch_norms_to_synchronize(config, *parts));
}

TEST(BatchNormsOfTheTrainer, NeedMoreThanOneValueInEveryPass) {
  const TemporaryFolder folder;
  const auto file =
      folder.write("norms.yaml",
                   "data: {name: dummy, n_train: 33, n_valid: 8, input_shape: [3, 32, 32]}\n"
                   "model: {name: resnet34}\n"
                   "optimizer: {name: sgd}\n"
                   "training: {batch_size: 32}\n");
  const auto prepare = [&](int ranks, const std::vector<std::string>& settings) {
    (void)prepare_run(load_run_config({file, {}, settings, {}, folder / "run"}), {}, {}, ranks);
  };
  const auto refused = [&](int ranks, const std::vector<std::string>& settings) {
    return message_of<InputError>([&] { prepare(ranks, settings); });
  };
  EXPECT_TRUE(
      says(refused(1, {}), {"norms.yaml:4: training.batch_size: 33 samples per rank in batches of "
                            "32 leave a pass of 1 sample",
                            "the batch norm stage4.", "training.drop_last=true"}));
  EXPECT_TRUE(says(refused(2, {"data.n_train=34", "training.batch_size=16"}),
                   {"17 samples per rank in batches of 16"}));
  EXPECT_TRUE(says(refused(1, {"training.accumulation=32", "training.drop_last=true"}),
                   {"a batch of 32 in 32 passes gives the batch norm stage4."}));
  EXPECT_NO_THROW(prepare(1, {"training.drop_last=true"}));
  EXPECT_NO_THROW(prepare(1, {"training.batch_size=31"}));
  EXPECT_NO_THROW(
      prepare(2, {"data.n_train=34", "training.batch_size=16", "model.sync_batch_norm=true"}));
  EXPECT_NO_THROW(prepare(1, {"data.input_shape=[3, 64, 64]"})) << "of more than one position";
}

}  // namespace
}  // namespace kolo::testing
