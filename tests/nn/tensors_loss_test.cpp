#include "kolo/nn/loss.h"

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "nn/script_files.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using Tensors = std::vector<torch::Tensor>;

TEST(TensorsLoss, OfPairsIsTheirSum) {
  torch::manual_seed(1);
  const auto loss = as_tensors_loss(make_mse());
  const Tensors outputs{torch::randn({4, 2}, torch::requires_grad()),
                        torch::randn({4}, torch::requires_grad())};
  const Tensors targets{torch::randn({4, 2}), torch::randn({4})};
  const auto value = loss(outputs, targets, {});
  EXPECT_TRUE(value.allclose(torch::mse_loss(outputs[0], targets[0]) +
                             torch::mse_loss(outputs[1], targets[1])));
  value.backward();
  EXPECT_TRUE(outputs[1].grad().allclose((outputs[1].detach() - targets[1]) / 2));
}

TEST(TensorsLoss, OfPairsTakesAsManyTargetsAndNoExtras) {
  const auto loss = as_tensors_loss(make_mse());
  const Tensors one{torch::zeros({4, 2})}, two{torch::zeros({4, 2}), torch::zeros({4})};
  const auto message = [&](const Tensors& outputs, const Tensors& targets, const Tensors& extras) {
    return message_of<InputError>([&] { (void)loss(outputs, targets, extras); });
  };
  EXPECT_TRUE(says(message(one, two, {}),
                   {"loss: outputs [4, 2] of Float; targets [4, 2] of Float, [4] of Float; "
                    "extras nothing; expected a target per output"}));
  EXPECT_TRUE(says(message(one, one, one), {"no extras"}));
  EXPECT_TRUE(says(message({}, {}, {}), {"outputs nothing"}));
}

class ScriptLoss : public ::testing::Test {
 protected:
  [[nodiscard]] TensorsLoss load(const std::string& forward) const {
    auto module = testing::script_module("Loss");
    module.register_parameter("scale", torch::full({1}, 3.F, torch::requires_grad()), false);
    module.define(forward);
    module.save((folder_ / "loss.pt").string());
    return make_torchscript_loss(folder_ / "loss.pt");
  }
  [[nodiscard]] std::string message(const std::string& forward) const {
    const auto loss = load(forward);
    return message_of<InputError>([&] { (void)loss(outputs_, targets_, extras_); });
  }

  TemporaryFolder folder_;
  Tensors outputs_{torch::randn({4, 2}, torch::requires_grad()),
                   torch::randn({4}, torch::requires_grad())};
  Tensors targets_{torch::randn({4, 2})};
  Tensors extras_{torch::rand({4, 2})};
};

TEST_F(ScriptLoss, GetsOutputsTargetsAndExtrasInThisOrder) {
  const auto loss = load(
      "def forward(self, a, b, target, weight):\n"
      "  if self.training:\n"
      "    a = a * 0\n"
      "  return self.scale[0] * ((a - target) ** 2 * weight).sum() + b.abs().mean()\n");
  const auto value = loss(outputs_, targets_, extras_);
  const auto expected =
      3 * ((outputs_[0] - targets_[0]).square() * extras_[0]).sum() + outputs_[1].abs().mean();
  EXPECT_TRUE(value.allclose(expected, 1e-5, 1e-6));
  const auto gradients = torch::autograd::grad({value}, outputs_);
  const auto reference = torch::autograd::grad({expected}, outputs_);
  for (std::size_t i = 0; i < reference.size(); ++i)
    EXPECT_TRUE(gradients[i].allclose(reference[i], 1e-5, 1e-6)) << i;
  const torch::NoGradGuard no_gradient;
  EXPECT_TRUE(loss(outputs_, targets_, extras_).allclose(expected, 1e-5, 1e-6));
}

TEST_F(ScriptLoss, SaysWhatWasPassedWhenItDoesNotFit) {
  EXPECT_TRUE(says(message("def forward(self, a, target):\n  return (a - target).mean()\n"),
                   {"loss.pt: forward takes 2 tensors, but got 4: ",
                    "[4, 2] of Float, [4] of Float, [4, 2] of Float"}));
  const std::string arguments = "def forward(self, a, b, target, weight):\n";
  EXPECT_TRUE(says(message(arguments + "  return a - target\n"),
                   {"loss.pt: gives [4, 2] of Float for outputs [4, 2] of Float",
                    "expected a floating scalar"}));
  EXPECT_TRUE(says(message(arguments + "  return a.argmax()\n"), {"gives [] of Long"}));
  EXPECT_TRUE(
      says(message(arguments + "  return a.mean(), b.mean()\n"), {"gives a (Tensor, Tensor) for"}));
  EXPECT_TRUE(says(message(arguments + "  return (self.scale * weight).mean()\n"),
                   {"gives a number without a gradient"}));
  const auto failing = load(arguments + "  return (a + b).mean()\n");
  EXPECT_TRUE(
      says(message_of<Error>([&] { (void)failing(outputs_, targets_, extras_); }),
           {"loss.pt: does not work on [4, 2] of Float, [4] of Float, ", "RuntimeError: "}));
}

}  // namespace
}  // namespace kolo::testing
