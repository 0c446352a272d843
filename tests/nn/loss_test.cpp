#include "kolo/nn/loss.h"

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/nn/metrics.h"
#include "support/errors.h"

namespace kolo {
namespace {

TEST(Loss, CrossEntropyIsTheMeanNegativeLogarithm) {
  torch::manual_seed(1);
  const torch::Tensor logits = torch::randn({6, 4}, torch::requires_grad());
  const torch::Tensor targets = torch::tensor({0, 3, 2, 2, 1, 0}, torch::kInt64);
  const torch::Tensor loss = make_loss(loss_named("cross_entropy"))(logits, targets);

  const torch::Tensor probabilities = logits.exp() / logits.exp().sum(1, true);
  const torch::Tensor picked = probabilities.gather(1, targets.unsqueeze(1));
  EXPECT_NEAR(loss.item<double>(), -picked.log().mean().item<double>(), 1e-6);

  loss.backward();
  const torch::Tensor one_hot = torch::one_hot(targets, 4);
  EXPECT_TRUE(torch::allclose(logits.grad(), (probabilities - one_hot) / 6, 1e-5, 1e-6));
}

TEST(Loss, UnknownNamesAreInputErrors) {
  EXPECT_THAT(testing::message_of<InputError>([] { (void)loss_named("hinge"); }),
              ::testing::HasSubstr("unknown loss \"hinge\", known are cross_entropy"));
}

TEST(CountCorrect, ComparesTheLargestLogitWithTheTarget) {
  const torch::Tensor logits =
      torch::tensor({{1.0, 2.0, 3.0}, {5.0, 2.0, 3.0}, {-1.0, -0.5, -2.0}}).requires_grad_();
  EXPECT_EQ(count_correct(logits, torch::tensor({2, 0, 1}, torch::kInt64)), 3);
  EXPECT_EQ(count_correct(logits, torch::tensor({2, 1, 0}, torch::kInt64)), 1);
  EXPECT_EQ(count_correct(logits, torch::tensor({0, 1, 2}, torch::kInt64)), 0);
  EXPECT_EQ(count_correct(torch::zeros({0, 3}), torch::zeros({0}, torch::kInt64)), 0);
}

}  // namespace
}  // namespace kolo
