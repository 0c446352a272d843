// Checks of combinations of keys.
#include "config/config_fixture.h"
#include "kolo/config/factories.h"
#include "kolo/train/trainer.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo {
namespace {

class Checks : public testing::ConfigTest {};

TEST_F(Checks, FashionMnistKnowsItsFolder) {
  EXPECT_EQ(value_of(load(required), "data.path"), "/usr/share/datasets/fashion-mnist");
  EXPECT_EQ(value_of(load(required, {"data.path=here"}), "data.path"), "here");
}

TEST_F(Checks, DataHasWhatItNeeds) {
  EXPECT_TRUE(says(error_after_required("", {"data.name=mnist"}),
                   {"data.path: data mnist needs the folder"}));
  EXPECT_THAT(
      error("data:\n  name: dummy\n  n_train: 1\nmodel: {name: cnn}\noptimizer: {name: sgd}\n"),
      StartsWith("run.yaml:1: data.input_shape: data dummy needs the shape"));
  EXPECT_THAT(
      error("data: {name: dummy, input_shape: [1]}\nmodel: {name: cnn}\noptimizer: {name: sgd}\n"),
      StartsWith("run.yaml:1: data.n_train: data dummy needs the number"));
}

TEST_F(Checks, BoxesHaveWhatTheyNeed) {
  const std::string boxes =
      "data: {name: nbody}\nmodel: {name: cnn}\noptimizer: {name: sgd}\n"
      "training: {loss: l1}\n";
  EXPECT_TRUE(says(error(boxes), {"data.train_path: data nbody needs a simulation box"}));
  EXPECT_TRUE(says(error(boxes, {"data.train_path=a"}), {"data.valid_path: "}));
  const Overrides paths{"data.train_path=a", "data.valid_path=b"};
  EXPECT_TRUE(says(error(boxes, paths), {"data.n_train: "}));
  const Overrides synthetic{"data.mode=synthetic", "data.n_train=8", "data.n_valid=8"};
  EXPECT_EQ(value_of(load(boxes, synthetic), "data.rotations"), "vector");
  auto small = synthetic;
  small.emplace_back("data.box_size=63");
  EXPECT_TRUE(says(error(boxes, small), {"a box of 63 cells has no crops of 64"}));
}

TEST_F(Checks, TargetsAreLabelsOrNumbers) {
  const std::string dummy =
      "data: {name: dummy, input_shape: [1], n_train: 1, target_shape: [3]}\n"
      "model: {name: cnn}\noptimizer: {name: sgd}\ntraining: {loss: l1}\n";
  EXPECT_EQ(value_of(load(dummy), "data.target_shape"), "[3]");
  EXPECT_TRUE(says(error(dummy, {"data.n_classes=2"}), {"not both"}));
}

TEST_F(Checks, NumbersHaveNoAccuracy) {
  EXPECT_TRUE(load(required, {"training.loss=l1"}).training.metrics.empty());
  EXPECT_TRUE(says(error_after_required("training: {loss: L1, metrics: [accuracy]}\n"),
                   {"training.metrics: with the loss l1 nothing is right or wrong"}));
  EXPECT_TRUE(says(error_after_required("training: {loss: l1, label_smoothing: .1}\n"),
                   {"training.label_smoothing: is of cross_entropy, binary_crossentropy; l1 has"}));
}

TEST_F(Checks, WhatDoesNotFitIsRefusedAtItsPlace) {
  const std::pair<Overrides, std::string> cases[] = {
      {{"model.name=unet3d", "model.full_scale=true", "model.levels=4"},
       "model.levels: full_scale stands for"},
      {{"model.name=torchscript", "model.file=m.pt", "model.sync_batch_norm=true"},
       "model.sync_batch_norm: the batch norms of the model torchscript"},
      {{"model={name: torchscript, file: m, freeze: [a]}"},
       "model.freeze: modules of a TorchScript model"},
      {{"model.freeze=[conv1]", "parallel.pipeline=2"},
       "model.freeze: [conv1] can't be had with parallel.pipeline"},
      {{"model.input_shape=[1000000000, 1000000000, 1000000000]"},
       "model.input_shape: the product"},
      {{"data.train_path=a"}, "data.train_path: is of nbody, arrays; fashion_mnist has path"},
      {{"data.target_shape=[3]"}, "data.target_shape: is of dummy; fashion_mnist has path"},
      {{"training.lambda_rho=.1"},
       "training.lambda_rho: is of l1; cross_entropy has label_smoothing"},
      {{"optimizer.name=schedule_free_sgd", "optimizer.decoupled_decay=true"},
       "optimizer.decoupled_decay: schedule_free_sgd has its own kind of weight decay"},
      {{"communication.powersgd_rank=2"}, "communication.powersgd_rank: only PowerSGD has it"},
      {{"communication.compression=powersgd", "training.precision=fp16"},
       "training.precision=fp16: what is carried over"},
      {{"communication.compression=powersgd", "training.non_finite=skip"},
       "communication.compression: powersgd can't be had with training.non_finite=skip: what is "
       "carried over"}};
  for (const auto& [overrides, words] : cases)
    EXPECT_TRUE(says(error(required, overrides), {"command line: ", words}));
}

TEST_F(Checks, WarmUpIsInEpochsOrInSteps) {
  EXPECT_THAT(error_after_required("training:\n  lr_warmup_epochs: 1\n  lr_warmup_steps: 10\n"),
              StartsWith("run.yaml:6: training.lr_warmup_steps: "));
  EXPECT_EQ(load(std::string(required) + "training: {lr_warmup_epochs: 0, lr_warmup_steps: 10}\n")
                .training.lr_warmup_steps,
            10);
}

TEST_F(Checks, NesterovNeedsMomentumWithoutDampening) {
  const std::string start =
      "data: {name: fashion_mnist}\nmodel: {name: cnn}\noptimizer:\n  nesterov: true\n";
  EXPECT_THAT(error(start + "  name: sgd\n"),
              StartsWith("run.yaml:4: optimizer.nesterov: needs a momentum"));
  EXPECT_TRUE(says(error(start + "  name: sgd\n  momentum: 0.9\n  dampening: 0.1\n"),
                   {"without dampening"}));
  EXPECT_TRUE(says(error(start + "  name: adam\n  momentum: 0.9\n"), {"is of sgd; adam has"}));
  EXPECT_EQ(value_of(load(start + "  name: sgd\n  momentum: 0.9\n"), "optimizer.nesterov"), "true");
}

TEST_F(Checks, CheckpointsComeByEpochsOrStepsOrNever) {
  EXPECT_TRUE(load(required).checkpoint.saves());
  EXPECT_TRUE(load(required, {"checkpoint={every_epochs: 0, every_steps: 5}"}).checkpoint.saves());
  EXPECT_FALSE(load(required, {"checkpoint.every_epochs=0"}).checkpoint.saves());
}

TEST_F(Checks, RandomCropsTakeThePlaceOfShiftsAndZooms) {
  const std::string folders = "data={name: imagenet, train_dir: a, valid_dir: b";
  const auto cropped = folders + ", random_crop: 0.08}";
  const auto config = load(required, {cropped});
  for (const auto* const key : {"data.height_shift", "data.width_shift", "data.zoom"})
    EXPECT_EQ(value_of(config, key), "0") << key;
  EXPECT_EQ(value_of(config, "data.random_crop"), "0.08");
  EXPECT_EQ(value_of(load(required, {folders + "}"}), "data.height_shift"), "0.1");
  for (const auto* const key : {"height_shift", "width_shift", "zoom"})
    EXPECT_THAT(error(required, {cropped, "data." + std::string(key) + "=0.2"}),
                StartsWith("command line: data." + std::string(key) + ": random_crop: 0.08"));
  EXPECT_TRUE(says(error(required, {folders + ", random_crop: 1.5}"}),
                   {"data.random_crop: expected a number from 0 to 1"}));
}

// Keys that exclude each other are refused at their place, with the reason.
TEST_F(Checks, StepsInPassesKnowWhatTheyCanCut) {
  EXPECT_EQ(load(required, {"training.accumulation=4"}).training.accumulation, 4);
  EXPECT_THAT(error(required, {"training.accumulation=65"}),
              AllOf(StartsWith("command line: training.accumulation: a rank's batch of 64"),
                    HasSubstr("can't be cut in 65 parts")));
  EXPECT_THAT(error_after_required("training: {batch_size: 8, accumulation: 9}\n"),
              StartsWith("run.yaml:4: training.accumulation: "));
  EXPECT_EQ(load(required, {"training.global_batch_size=8", "training.accumulation=9"})
                .training.accumulation,
            9);
  for (const auto* const other :
       {"parallel.pipeline=2", "training.virtual_ranks=4", "device.graphs=true"})
    EXPECT_THAT(error(required, {"training.accumulation=2", other}),
                AllOf(StartsWith("command line: training.accumulation: 2 can't be had with "),
                      HasSubstr(std::string(other).substr(0, std::string(other).find('=')))));
}

TEST_F(Checks, CompressionStandsAlone) {
  for (const auto& [value, name] : enum_names(Compression{})) {
    if (value == Compression::none) continue;
    const auto compression = "communication.compression=" + std::string(name);
    EXPECT_EQ(value_of(load(required, {compression}), "communication.compression"), name);
    for (const auto* const other :
         {"training.virtual_ranks=4", "device.graphs=true", "optimizer.sharded=true"})
      EXPECT_TRUE(says(error(required, {compression, other}), {"can't be had with "})) << other;
  }
}

TEST_F(Checks, ShardedOptimizersWorkElementByElement) {
  EXPECT_TRUE(load(required, {"optimizer.sharded=true"}).optimizer.sharded);
  EXPECT_TRUE(load(required, {"optimizer.sharded=true", "optimizer.name=schedule_free_sgd"})
                  .optimizer.sharded);
  for (const auto* const name : {"lars", "lamb"})
    EXPECT_THAT(
        error(required, {"optimizer.sharded=true", std::string("optimizer.name=") + name}),
        StartsWith("command line: optimizer.sharded: " + std::string(name) + " needs whole"));
  for (const auto* const other :
       {"training.virtual_ranks=4", "device.graphs=true", "parallel.pipeline=2"})
    EXPECT_THAT(error(required, {"optimizer.sharded=true", other}),
                StartsWith("command line: optimizer.sharded: true can't be had with "));
}

}  // namespace
}  // namespace kolo
