// Training on targets that are numbers, end to end through the binary.
#include <torch/script.h>

#include "cli/small_runs.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

class RegressionProgram : public Runs {
 protected:
  RegressionProgram()
      : Runs(
            "data: {name: dummy, input_shape: [2, 3], target_shape: [4], n_train: 32, n_valid: 8}\n"
            "model: {name: mlp, hidden: [40, 30], activation: tanh}\n"
            "optimizer: {name: adam, lr: 0.01}\n"
            "training: {batch_size: 8, n_epochs: 20, loss: mean_squared_error}\n") {}
};

TEST_F(RegressionProgram, AScriptLearnsNumbersAndIsSavedBack) {
  torch::manual_seed(1);
  torch::jit::Module script("Map");
  script.register_attribute("training", c10::BoolType::get(), true);
  script.register_parameter("weight", torch::randn({4, 6}, torch::requires_grad()), false);
  script.register_parameter("spare", torch::randn({3}, torch::requires_grad()), false);
  script.define("def forward(self, x):\n  return torch.linear(x.flatten(1), self.weight)\n");
  const auto file = (folder / "script.pt").string();
  script.save(file);
  const std::string model = "model={name: torchscript, file: " + file + "}";
  const auto result = train({"-n", "2", model});
  ASSERT_EQ(result.exit_code, 0) << result.output << result.errors;
  EXPECT_TRUE(says(result.output + result.errors,
                   {"spare takes no part in what the network returns, and stays as it is"}));
  EXPECT_FALSE(says(result.output, {"accuracy"}));
  const auto all = history();
  const auto epochs = all.epochs();
  ASSERT_EQ(epochs.size(), 21U);  // and before the first
  EXPECT_LT(epochs[20].loss, .9 * epochs[1].loss);
  EXPECT_TRUE(succeeds(run_kolo({"eval", folder / "run", "--pictures", folder / "drawn"}),
                       {"pictures: none"}));
  EXPECT_FALSE(std::filesystem::exists(folder / "drawn")) << "an empty folder";
  const auto trained = torch::jit::load(folder / "run/model.pt");
  EXPECT_TRUE(trained.attr("spare").toTensor().equal(script.attr("spare").toTensor()));
  EXPECT_FALSE(trained.attr("weight").toTensor().allclose(script.attr("weight").toTensor()));

  EXPECT_TRUE(is_refused(train({model, "data.target_shape=[5]"}),
                         {"script.pt gives [2, 4] for a batch [2, 2, 3]", "expected [2, 5]"}));
}

TEST_F(RegressionProgram, RefusesLossesAndModelsOfTheOtherKind) {
  EXPECT_TRUE(is_refused(train({"training.loss=cross_entropy"}),
                         {"the targets of the data dummy are numbers; use l1 or mse"}));
  EXPECT_TRUE(
      is_refused(train({"model={name: mnist_net}"}),
                 {"model mnist_net: tells classes apart, but the data's targets are numbers"}));
}

}  // namespace
}  // namespace kolo::testing
