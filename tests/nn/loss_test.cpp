#include "kolo/nn/loss.h"

#include <cmath>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "settings/choice_reader.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

TEST(Loss, CrossEntropyIsTheMeanNegativeLogarithm) {
  torch::manual_seed(1);
  const torch::Tensor logits = torch::randn({6, 4}, torch::requires_grad());
  const torch::Tensor targets = torch::tensor({0, 3, 2, 2, 1, 0}, torch::kInt64);
  const torch::Tensor loss = make_loss("cross_entropy")(logits, targets);

  const torch::Tensor probabilities = logits.exp() / logits.exp().sum(1, true);
  const torch::Tensor picked = probabilities.gather(1, targets.unsqueeze(1));
  EXPECT_NEAR(loss.item<double>(), -picked.log().mean().item<double>(), 1e-6);

  loss.backward();
  const torch::Tensor one_hot = torch::one_hot(targets, 4);
  EXPECT_TRUE(torch::allclose(logits.grad(), (probabilities - one_hot) / 6, 1e-5, 1e-6));
}

// Keras: targets (1 - s) + s / classes, then the cross entropy of these.
TEST(Loss, LabelSmoothingGivesAShareToAllClasses) {
  torch::manual_seed(2);
  const torch::Tensor logits = torch::randn({5, 7});
  const torch::Tensor targets = torch::tensor({6, 0, 2, 2, 1}, torch::kInt64);
  const torch::Tensor one_hot = torch::one_hot(targets, 7).to(torch::kFloat32);
  const auto smooth = make_cross_entropy(0.2);
  const torch::Tensor soft = one_hot * 0.8 + 0.2 / 7;
  const double expected = -(soft * logits.log_softmax(1)).sum(1).mean().item<double>();
  EXPECT_NEAR(smooth(logits, targets).item<double>(), expected, 1e-6);
  EXPECT_NEAR(smooth(logits, one_hot).item<double>(), expected, 1e-6);
  EXPECT_NEAR(make_loss("cross_entropy")(logits, soft).item<double>(), expected, 1e-6);
}

TEST(Loss, BinaryCrossEntropyTakesOneLogit) {
  const torch::Tensor logits = torch::tensor({{-2.0}, {0.5}, {3.0}}).requires_grad_();
  const torch::Tensor targets = torch::tensor({0, 1, 0}, torch::kInt64);
  const auto loss = make_loss("binary_crossentropy");
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const double expected =
      -(std::log(1 - sigmoid(-2)) + std::log(sigmoid(0.5)) + std::log(1 - sigmoid(3))) / 3;
  EXPECT_NEAR(loss(logits, targets).item<double>(), expected, 1e-6);
  EXPECT_NEAR(loss(logits.flatten(), targets.to(torch::kFloat32)).item<double>(), expected, 1e-6);
  EXPECT_NEAR(loss(logits, targets.view({3, 1})).item<double>(), expected, 1e-6);

  loss(logits, targets).backward();
  const torch::Tensor gradient = (logits.sigmoid() - targets.view({3, 1})) / 3;
  EXPECT_TRUE(torch::allclose(logits.grad(), gradient, 1e-5, 1e-6));
}

// Keras: targets (1 - s) + s / 2.
TEST(Loss, BinaryCrossEntropySmoothsTowardsOneHalf) {
  const torch::Tensor logits = torch::tensor({{-2.0}, {0.5}});
  const auto smooth = make_binary_cross_entropy(0.1);
  const auto plain = make_loss("binary_cross_entropy");
  EXPECT_NEAR(smooth(logits, torch::tensor({0, 1}, torch::kInt64)).item<double>(),
              plain(logits, torch::tensor({0.05, 0.95})).item<double>(), 1e-6);
}

TEST(Loss, StaysFiniteForCertainNetworks) {
  const auto loss = make_loss("binary_cross_entropy");
  EXPECT_EQ(loss(torch::tensor({1e4}), torch::tensor({1.0})).item<double>(), 0);
  EXPECT_EQ(loss(torch::tensor({1e4}), torch::tensor({0.0})).item<double>(), 1e4);
}

// The mean distance, in whatever memory either lies, beside LibTorch's in float64.
TEST(Loss, L1TakesFieldsInAnyMemory) {
  torch::manual_seed(3);
  const auto loss = make_loss("l1");
  using Format = at::MemoryFormat;
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{
           {2, 5, 33, 34, 31}, {1, 3, 4, 1, 1}, {3, 2, 1, 7, 200}, {2, 1, 3, 3, 3}}) {
    for (const auto from : {Format::Contiguous, Format::ChannelsLast3d}) {
      for (const auto to : {Format::Contiguous, Format::ChannelsLast3d}) {
        const auto outputs = torch::randn(shape).contiguous(from).requires_grad_();
        auto targets = torch::randn(shape).contiguous(to);
        targets.flatten()[1] = outputs.detach().flatten()[1];
        const auto value = loss(outputs, targets);
        const auto expected = (outputs.detach().to(torch::kDouble) - targets).abs().mean();
        EXPECT_NEAR(value.item<double>(), expected.item<double>(), 1e-6);
        (3 * value).backward();
        const auto slope = 3. / static_cast<double>(outputs.numel());
        EXPECT_TRUE(outputs.grad().allclose(torch::sign(outputs.detach() - targets) * slope, 0,
                                            1e-9 * slope + 1e-12))
            << shape;
        EXPECT_EQ(outputs.grad().strides(), outputs.strides());
      }
    }
  }
}

TEST(Loss, L1OfNoNumberHasNoNumberAsGradient) {
  const auto outputs = torch::tensor({{NAN, 1.F}}).requires_grad_();
  const auto value = make_loss("l1")(outputs, torch::zeros({1, 2}));
  EXPECT_TRUE(std::isnan(value.item<double>()));
  value.backward();
  EXPECT_TRUE(std::isnan(outputs.grad()[0][0].item<double>()));
  EXPECT_EQ(outputs.grad()[0][1].item<double>(), .5);
}

// The first channel of a field is ln(rho) / 14: of densities 1 and e^2 against e and e^2.
TEST(Loss, L1CanCountTheDensityItself) {
  const auto outputs = torch::zeros({1, 5, 1, 1, 2});
  outputs.select(1, 0).copy_(torch::tensor({0.0, 2.0 / 14}).view({1, 1, 1, 2}));
  const auto targets = outputs.clone();
  targets.select(1, 0).copy_(torch::tensor({1.0 / 14, 2.0 / 14}).view({1, 1, 1, 2}));
  const double plain = 1. / 14 / 10;
  EXPECT_NEAR(make_l1()(outputs, targets).item<double>(), plain, 1e-7);
  const auto loss = make_l1(.5);
  EXPECT_NEAR(loss(outputs, targets).item<double>(), plain + .5 * (std::exp(1.) - 1) / 2, 1e-6);
}

TEST(Loss, MseIsTheMeanSquare) {
  const auto loss = make_loss("mse");
  EXPECT_NEAR(loss(torch::tensor({1.0, -2.0, 4.0}), torch::tensor({0.0, 1.0, 4.0})).item<double>(),
              10. / 3, 1e-6);
  const auto outputs = torch::randn({3, 2}, torch::requires_grad());
  const auto targets = torch::randn({3, 2}, torch::kFloat64);
  const auto value = loss(outputs, targets);
  value.backward();
  EXPECT_EQ(value.scalar_type(), torch::kFloat);
  EXPECT_TRUE(outputs.grad().allclose((outputs.detach() - targets).to(torch::kFloat) / 3));
}

TEST(Loss, OptionsOfOtherLossesAreInputErrors) {
  const auto keys = [](const char* name) { return keys_of(loss_entry(name)); };
  EXPECT_THAT(keys("l1"), ::testing::ElementsAre("lambda_rho"));
  EXPECT_THAT(keys("cross_entropy"), ::testing::ElementsAre("label_smoothing"));
  EXPECT_THROW((void)make_l1(-1), InputError);
}

TEST(Loss, NamesOfOtherFrameworksAreKnown) {
  for (const auto& [alias, name] : {std::pair("mae", "l1"),
                                    {"mean_absolute_error", "l1"},
                                    {"mean_squared_error", "mse"},
                                    {"categorical_crossentropy", "cross_entropy"},
                                    {"sparse_categorical_crossentropy", "cross_entropy"},
                                    {"bce", "binary_crossentropy"},
                                    {"binary_cross_entropy", "binary_crossentropy"}})
    EXPECT_EQ(loss_entry(alias).name, name);
}

TEST(Loss, UnknownNamesAreInputErrors) {
  EXPECT_TRUE(says(message_of<InputError>([] { (void)loss_entry("hinge"); }),
                   {"unknown loss \"hinge\", expected one of cross_entropy, "}));
  EXPECT_TRUE(says(message_of<InputError>([] { (void)loss_entry("binary_crossentrpy"); }),
                   {"did you mean \"binary_crossentropy\"?"}));
}

TEST(Loss, SmoothingOutOfRangeIsAnInputError) {
  for (const double smoothing : {-0.1, 1.0, std::nan("")}) {
    EXPECT_TRUE(says(message_of<InputError>([&] { (void)make_cross_entropy(smoothing); }),
                     {"expected a number from 0 to below 1"}));
  }
}

TEST(Loss, RefusesWhatDoesNotGoTogether) {
  using torch::zeros;
  const auto indices = zeros({3}, torch::kInt64);
  const auto refusal = [](const LossFunction& loss, const torch::Tensor& outputs,
                          const torch::Tensor& targets) {
    return message_of<InputError>([&] { (void)loss(outputs, targets); });
  };
  for (const std::string name : {"l1", "mse"}) {
    const auto loss = make_loss(name);
    EXPECT_TRUE(says(refusal(loss, zeros({4}), zeros({4, 1})),
                     {name + " of outputs [4] of Float and targets [4, 1] of Float",
                      "expected numbers of one shape"}));
    (void)refusal(loss, zeros({4, 1}), zeros({4}));
    (void)refusal(loss, zeros({4, 2}), zeros({1, 2}));
    (void)refusal(loss, zeros({3}), indices);
  }
  EXPECT_TRUE(says(refusal(make_l1(1), zeros({2}), zeros({2})), {"for lambda_rho"}));
  const auto classes = make_loss("cross_entropy"), binary = make_loss("binary_cross_entropy");
  EXPECT_TRUE(
      says(refusal(classes, zeros({4, 2}), indices),
           {"outputs [4, 2] of Float and targets [3] of Long", "expected logits [N, classes]"}));
  (void)refusal(classes, zeros({3, 2}), zeros({3}));
  (void)refusal(classes, zeros({3, 2}), zeros({3, 4}));
  EXPECT_TRUE(says(refusal(classes, zeros({3, 1}), indices), {"use binary_cross_entropy"}));
  EXPECT_TRUE(says(refusal(binary, zeros({3, 2}), indices),
                   {"for a network of several outputs use cross_entropy"}));
  (void)refusal(binary, zeros({4, 1}), indices);
}

}  // namespace
}  // namespace kolo::testing
