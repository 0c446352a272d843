// Choices by name, and keys of others.
#include <torch/nn/modules/linear.h>

#include "config/config_fixture.h"
#include "kolo/config/factories.h"
#include "kolo/nn/network.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo {
namespace {

class Choices : public testing::ConfigTest {
 protected:
  static constexpr const char* adam =
      "data: {name: fashion_mnist}\n"
      "model: {name: mnist_net}\n"
      "optimizer: {name: adam, beta1: 0.8, epsilon: 0.1, lr: 0.5}\n";
};

TEST_F(Choices, KeysOfOthersAreRefusedAndSayWhose) {
  EXPECT_TRUE(says(error_after_required("", {"optimizer.beta1=0.9"}),
                   {"command line: optimizer.beta1: is of adam, adamw, ",
                    "; sgd has momentum, dampening, nesterov; null leaves it out"}));
  EXPECT_THAT(error_after_required("", {"model.levels=4"}),
              StartsWith("command line: model.levels: is of unet3d; mnist_net has dropout; null"));
  EXPECT_TRUE(says(error_after_required("", {"model.file=m.pt"}),
                   {"model.file: is of torchscript; mnist_net has dropout"}));
  EXPECT_TRUE(
      says(error_after_required("", {"model.name=resnet34", "model.dropout=0.5"}),
           {"model.dropout: is of mnist_net, mnist_cnn, cnn, mlp; resnet34 has batch_norm"}));
  const std::string start = "data: {name: fashion_mnist}\nmodel: {name: mnist_net}\n";
  EXPECT_TRUE(says(error(start + "optimizer: {name: sgd, beta1: 0.9, rho: 0.9}\n"),
                   {"run.yaml:3: optimizer.beta1: is of adam, "}));
  // Also with their defaults, and however many there are.
  EXPECT_TRUE(says(error(start + "optimizer: {name: sgd, amsgrad: false, beta1: 0.9, beta2: 0.999, "
                                 "rho: 0.9, trust_coefficient: 0.001}\n"),
                   {"run.yaml:3: optimizer.amsgrad: is of adam, adamw; sgd has momentum, "}));
  EXPECT_EQ(load(start + "optimizer: {name: sgd, beta1: null}\n").optimizer.name, "sgd");
}

TEST_F(Choices, AnotherChoiceOnTheCommandLineLeavesTheFilesKeysBehind) {
  const auto config = load(adam, {"optimizer.name=sgd", "optimizer.momentum=0.9"});
  EXPECT_EQ(value_of(config, "optimizer.momentum"), "0.9");
  EXPECT_EQ(value_of(config, "optimizer.beta1"), "none");
  EXPECT_EQ(config.optimizer.lr, 0.5);  // no optimizer's own
  // Keys that both have stay.
  EXPECT_EQ(value_of(load(adam, {"optimizer.name=Lamb"}), "optimizer.beta1"), "0.8");
  EXPECT_EQ(value_of(load(adam, {"optimizer.name=lars", "optimizer.name=sgd"}), "optimizer.lr"),
            "0.5");
  // Only the file's.
  EXPECT_THAT(error(adam, {"optimizer.name=sgd", "optimizer.beta1=0.9"}),
              StartsWith("command line: optimizer.beta1: is of adam, "));
}

class Linear final : public Network {
 public:
  explicit Linear(double given)
      : dropout(given), layer_(register_module("layer", torch::nn::Linear(3, 2))) {}
  torch::Tensor forward(const torch::Tensor& input) override { return layer_(input); }
  double dropout;

 private:
  torch::nn::Linear layer_;
};

TEST_F(Choices, ModelsOfOnesOwnAreChosenLikeTheOthers) {
  ModelCatalogue models = built_in_models();
  models.add({.name = "MyLinear",
              .description = "one layer",
              .make =
                  [](const ModelOptions& options) {
                    return std::make_shared<Linear>(options.dropout.value_or(.125));
                  },
              .l2 = .25,
              .has_batch_norm = false});
  const std::string text =
      "data: {name: dummy, input_shape: [3], n_train: 4, n_classes: 2}\n"
      "model: {name: mylinear, dropout: 0.5}\noptimizer: {name: sgd}\n";
  const auto made = [&](Overrides overrides) {
    const auto config = load_run_config(source(text, std::move(overrides)), models);
    const auto network = make_network(config, {{3}, 2, {}}, models);
    return std::pair(config, dynamic_cast<const Linear&>(*network).dropout);
  };
  const auto [config, dropout] = made({});
  EXPECT_EQ(config.model.name, "MyLinear");
  EXPECT_EQ(dropout, .5);
  EXPECT_EQ(config.model.l2, .25);
  EXPECT_EQ(value_of(config, "model.dropout"), "0.5");
  EXPECT_EQ(value_of(config, "model.batch_norm_momentum"), "none");
  EXPECT_EQ(made({"model.dropout=null"}).second, .125);
  EXPECT_TRUE(says(testing::message_of<InputError>([&] { (void)made({"model.levels=2"}); }),
                   {"model.levels: is of unet3d; MyLinear has dropout"}));
  EXPECT_TRUE(says(error(text), {"run.yaml:2: model.name: expected one of mnist_net, "}));
}

}  // namespace
}  // namespace kolo
