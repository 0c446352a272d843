// Configurations as the tutorials write them, and what they turn into.
#include <cmath>
#include <cstdlib>

#include "config/config_fixture.h"
#include "kolo/config/factories.h"
#include "kolo/nn/network.h"
#include "kolo/train/objective.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo {
namespace {

class TutorialConfigurations : public testing::ConfigTest {
 protected:
  // The keys and the ways of writing of NERSC's tutorial.
  static constexpr const char* text =
      "description: 'ResNet ImageNet'\n"
      "output_dir: $KOLO_TEST_SCRATCH/imagenet-N${KOLO_TEST_NODES}\n"
      "data:\n"
      "    name: imagenet\n"
      "    train_dir: /data/train\n"
      "    valid_dir: /data/validation\n"
      "model:\n"
      "    name: resnet50\n"
      "    input_shape: [224, 224, 3]\n"
      "    n_classes: 100\n"
      "optimizer:\n"
      "    name: SGD\n"
      "    lr: 0.0125\n"
      "    momentum: 0.9\n"
      "training:\n"
      "    batch_size: 32\n"
      "    n_epochs: 100\n"
      "    lr_warmup_epochs: 5\n"
      "    loss: categorical_crossentropy\n"
      "    metrics: [accuracy, top_k_categorical_accuracy]\n"
      "    lr_schedule:\n"
      "        - {start_epoch: 5, end_epoch: 30, multiplier: 1.}\n"
      "        - {start_epoch: 30, end_epoch: 60, multiplier: 1.e-1}\n"
      "        - {start_epoch: 80, multiplier: 1.e-3}\n"
      "device:\n"
      "    intra_threads: 32\n";

  TutorialConfigurations() {
    setenv("KOLO_TEST_SCRATCH", "/scratch", 1);
    setenv("KOLO_TEST_NODES", "4", 1);
  }
};

TEST_F(TutorialConfigurations, AreUnderstoodAsTheyStand) {
  const RunConfig config = load(text);
  EXPECT_EQ(config.output_dir, "/scratch/imagenet-N4");
  EXPECT_EQ(value_of(config, "data.valid_dir"), "/data/validation");
  EXPECT_THAT(config.model.input_shape, ElementsAre(3, 224, 224));
  EXPECT_EQ(config.model.n_classes, 100);
  EXPECT_EQ(config.optimizer.name, "sgd");
  EXPECT_EQ(config.optimizer.lr_scaling, Scaling::linear);  // as their get_optimizer() has it
  EXPECT_EQ(config.device.intra_threads, 32);
  EXPECT_EQ(make_objective(config).top, 5);
}

// 4 ranks, 10 steps an epoch: up to 4 times the rate over 5 epochs, then in steps.
TEST_F(TutorialConfigurations, HaveTheTutorialsLearningRates) {
  const auto rate = make_learning_rate(load(text), 4, 10);
  for (int step = 0; step < 50; ++step)
    EXPECT_NEAR(rate.at(step), .0125 * (1 + 3 * (step + 1) / 50.), 1e-12) << step;
  EXPECT_NEAR(rate.at(50), .05, 1e-12);
  EXPECT_NEAR(rate.at(299), .05, 1e-12);
  EXPECT_NEAR(rate.at(300), .005, 1e-12);
  EXPECT_NEAR(rate.at(799), .005, 1e-12);  // the gap keeps what was
  EXPECT_NEAR(rate.at(800), .00005, 1e-12);
}

TEST_F(TutorialConfigurations, OutputCanBeChosenWithoutTheirVariables) {
  unsetenv("KOLO_TEST_NODES");
  EXPECT_TRUE(says(error(text), {"KOLO_TEST_NODES"}));
  auto from = source(text);
  from.output_dir = "here$";
  EXPECT_EQ(load_run_config(from).output_dir, "here$");
}

TEST_F(TutorialConfigurations, ChannelsMayStandFirstOrLast) {
  const std::string start = std::string(required) + "training: {}\n";
  EXPECT_THAT(load(start, {"model.input_shape=[64, 48, 3]"}).model.input_shape,
              ElementsAre(3, 64, 48));
  EXPECT_THAT(load(start, {"model.input_shape=[3, 64, 48]"}).model.input_shape,
              ElementsAre(3, 64, 48));
  EXPECT_THAT(load(start, {"model.input_shape=[1, 28, 28]"}).model.input_shape,
              ElementsAre(1, 28, 28));
  EXPECT_THAT(load(start, {"model.input_shape=[3, 3, 3]"}).model.input_shape, ElementsAre(3, 3, 3));
}

TEST_F(TutorialConfigurations, TheFormOfEpsilonDecidesItsDefault) {
  const auto optimizer = [&](const std::string& keys) {
    return load("data: {name: fashion_mnist}\nmodel: {name: mnist_net}\noptimizer: {" + keys +
                "}\n");
  };
  const auto epsilon = [&](const std::string& keys) {
    return value_of(optimizer(keys), "optimizer.epsilon");
  };
  EXPECT_EQ(value_of(optimizer("name: adam"), "optimizer.epsilon_form"), "torch");
  EXPECT_EQ(epsilon("name: adamw, epsilon_form: Keras"), "1e-07");
  EXPECT_EQ(value_of(optimizer("name: rmsprop"), "optimizer.epsilon_form"), "keras");
  EXPECT_EQ(epsilon("name: rmsprop, epsilon_form: torch"), "1e-08");
  EXPECT_EQ(epsilon("name: adagrad, epsilon_form: torch"), "1e-10");
  EXPECT_EQ(epsilon("name: adagrad, epsilon_form: torch, epsilon: .5"), "0.5");
}

TEST_F(TutorialConfigurations, OptimizersHaveKerasNamesAndDefaults) {
  struct Expected {
    const char* name;
    double lr;
    const char* epsilon;
  };
  for (const auto& [name, lr, epsilon] :
       {Expected{"Adam", .001, "1e-08"}, Expected{"SGD", .01, "none"},
        Expected{"RMSprop", .001, "1e-07"}, Expected{"Adagrad", .001, "1e-07"},
        Expected{"Adadelta", .001, "1e-07"}, Expected{"Adamax", .001, "1e-07"},
        Expected{"Nadam", .001, "1e-07"}, Expected{"LARS", .01, "none"},
        Expected{"LAMB", .001, "1e-06"}}) {
    const RunConfig config =
        load(std::string("data: {name: fashion_mnist}\nmodel: {name: mnist_net}\n") +
             "optimizer: {name: " + name + "}\n");
    EXPECT_EQ(config.optimizer.lr, lr) << name;
    EXPECT_EQ(value_of(config, "optimizer.epsilon"), epsilon) << name;
    EXPECT_EQ(make_optimizer(config)->name(), config.optimizer.name);
  }
}

TEST_F(TutorialConfigurations, SchedulesAreInOrderAndOneAtATime) {
  const std::string start = std::string(required) + "training:\n";
  EXPECT_TRUE(says(error(start + "  lr_schedule: [{start_epoch: 3}, {start_epoch: 2}]\n"),
                   {"training.lr_schedule: learning rate: start_epoch of interval 2"}));
  EXPECT_TRUE(says(error(start + "  lr_schedule: [{start_epoch: 3}, {start_epoch: 3}]\n"),
                   {"training.lr_schedule: ", "start_epoch of interval 2"}));
  EXPECT_TRUE(says(error(start + "  lr_schedule: [{start_epoch: 3, end_epoch: 3}]\n"),
                   {"training.lr_schedule: ", "end_epoch of interval 1"}));
  EXPECT_TRUE(says(error(start + "  lr_schedule: [{start_epoch: 3, factor: 3}]\n"),
                   {"training.lr_schedule[0]: unknown key \"factor\""}));
  EXPECT_TRUE(says(error(start + "  lr_schedule: 3\n"), {"a list of mappings"}));
  EXPECT_TRUE(
      says(error(start + "  lr_schedule: [{start_epoch: 3}]\n  lr_decay: cosine\n"), {"not both"}));
  EXPECT_TRUE(says(error(start + "  lr_warmup_epochs: 1\n  lr_decay: one_cycle\n"),
                   {"one_cycle rises and falls"}));
  EXPECT_TRUE(says(error(start + "  metrics: [accuracy, f1]\n"), {"training.metrics[1]"}));
}

TEST_F(TutorialConfigurations, ADecayReachesItsEndInTheLastStep) {
  const RunConfig config =
      load(required, {"training.n_epochs=3", "training.lr_decay=cosine", "optimizer.lr=2",
                      "training.lr_final_fraction=0.25", "training.lr_warmup_steps=4",
                      "training.lr_warmup_from=0", "optimizer.lr_scaling=none"});
  const auto rate = make_learning_rate(config, 8, 10);
  EXPECT_NEAR(rate.at(0), .5, 1e-12);
  EXPECT_NEAR(rate.at(3), 2, 1e-12);
  for (const int step : {4, 10, 20, 29}) {
    const double progress = (step - 4) / 26.;
    const double expected = 2 * (.25 + .75 * .5 * (1 + std::cos(M_PI * progress)));
    EXPECT_NEAR(rate.at(step), expected, 1e-12) << step;
  }
  EXPECT_NEAR(rate.at(30), .5, 1e-12);
}

// The network's own penalty counts unless the configuration has one, or a weight decay.
TEST_F(TutorialConfigurations, TheL2PenaltyIsTheModelsUnlessSaid) {
  const std::string resnet =
      "data: {name: cifar10}\nmodel: {name: resnet_small}\noptimizer: {name: adam}\n";
  EXPECT_EQ(l2_of(load(resnet)), 5e-5);
  EXPECT_EQ(l2_of(load(resnet, {"model.l2=0.1"})), .1);
  EXPECT_EQ(l2_of(load(resnet, {"optimizer.weight_decay=0.1"})), 0);
  EXPECT_EQ(l2_of(load(required)), 0);
  EXPECT_TRUE(says(testing::message_of<InputError>([&] {
                     (void)l2_of(load(resnet, {"model.l2=0.1", "optimizer.weight_decay=0.1"}));
                   }),
                   {"give one"}));
}

TEST_F(TutorialConfigurations, BinaryLossesHaveOneOutput) {
  const std::string start = "data: {name: dummy, input_shape: [64, 64, 3], n_train: 8}\n";
  const std::string hello = start +
                            "model: {name: cnn, n_classes: 1}\noptimizer: {name: Adam}\n"
                            "training: {loss: binary_crossentropy}\n";
  const RunConfig config = load(hello);
  const auto datasets = make_datasets(config);
  EXPECT_EQ(datasets.training->layout().classes, 2);
  const auto network = make_network(config, datasets.training->layout());
  EXPECT_EQ(network->forward(torch::zeros({2, 3, 64, 64})).size(1), 1);
  EXPECT_TRUE(says(error(hello, {"model.n_classes=3"}), {"training.loss: binary_crossentropy"}));
  EXPECT_TRUE(says(error(hello, {"training.loss=cross_entropy"}), {"one output"}));
  EXPECT_TRUE(says(testing::message_of<InputError>([&] {
                     const auto ten = load(hello, {"data.n_classes=10"});
                     (void)make_network(ten, make_datasets(ten).training->layout());
                   }),
                   {"tells two classes apart"}));
  // Labels that are all 0.
  EXPECT_TRUE(says(testing::message_of<InputError>([&] {
                     const auto plain =
                         load(start + "model: {name: cnn}\noptimizer: {name: Adam}\n");
                     auto layout = make_datasets(plain).training->layout();
                     layout.classes = 1;
                     (void)make_network(plain, layout);
                   }),
                   {"all labels of the data are 0"}));
}

TEST_F(TutorialConfigurations, OnlyImagesAreAugmented) {
  EXPECT_TRUE(says(error("data: {name: dummy, n_train: 1, input_shape: [4]}\nmodel: {name: mlp}\n"
                         "optimizer: {name: sgd}\n",
                         {"data.zoom=0.5"}),
                   {"data.zoom: is of mnist, fashion_mnist, cifar10, imagenet; dummy has "}));
  EXPECT_TRUE(says(error(required, {"data.preprocessing=caffe"}), {"data.preprocessing"}));
}

}  // namespace
}  // namespace kolo
