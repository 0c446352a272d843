// What depends on more than one key.
#include "config/config_fixture.h"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class Checks : public testing::ConfigTest {};

TEST_F(Checks, FashionMnistKnowsItsFolder) {
  EXPECT_EQ(load(required).data.path, "/usr/share/datasets/fashion-mnist");
  EXPECT_EQ(load(required, {"data.path=here"}).data.path, "here");
}

TEST_F(Checks, DataHasWhatItNeeds) {
  EXPECT_THAT(error_after_required("", {"data.name=mnist"}),
              HasSubstr("data.path: data mnist needs the folder"));
  EXPECT_THAT(
      error("data:\n  name: dummy\n  n_train: 1\nmodel: {name: m}\noptimizer: {name: sgd}\n"),
      StartsWith("run.yaml:1: data.input_shape: data dummy needs the shape"));
  EXPECT_THAT(
      error("data: {name: dummy, input_shape: [1]}\nmodel: {name: m}\noptimizer: {name: sgd}\n"),
      StartsWith("run.yaml:1: data.n_train: data dummy needs the number"));
}

TEST_F(Checks, ShapesStayCountable) {
  EXPECT_THAT(error_after_required("", {"model.input_shape=[4294967296, 4294967296]"}),
              StartsWith("command line: model.input_shape: the product"));
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
      "data: {name: fashion_mnist}\nmodel: {name: m}\noptimizer:\n  nesterov: true\n";
  EXPECT_THAT(error(start + "  name: sgd\n"),
              StartsWith("run.yaml:4: optimizer.nesterov: needs a momentum"));
  EXPECT_THAT(error(start + "  name: sgd\n  momentum: 0.9\n  dampening: 0.1\n"),
              HasSubstr("without dampening"));
  EXPECT_THAT(error(start + "  name: adam\n  momentum: 0.9\n"), HasSubstr("only sgd"));
  EXPECT_TRUE(load(start + "  name: sgd\n  momentum: 0.9\n").optimizer.nesterov);
}

TEST_F(Checks, EnabledCheckpointsComeSomeTime) {
  EXPECT_THAT(error_after_required("checkpoint:\n  every_epochs: 0\n"),
              StartsWith("run.yaml:5: checkpoint.every_epochs: "));
  EXPECT_FALSE(load(std::string(required) + "checkpoint: {enabled: false, every_epochs: 0}\n")
                   .checkpoint.enabled);
  EXPECT_EQ(load(std::string(required) + "checkpoint: {every_epochs: 0, every_steps: 5}\n")
                .checkpoint.every_steps,
            5);
}

}  // namespace
}  // namespace kolo
