#include "kolo/optim/flat_optimizer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include <gmock/gmock.h>

#include "optim/flat_buffers.h"

namespace kolo::testing {
namespace {

// One element with its state, in double.
struct Element {
  double value = 0;
  std::array<double, 3> state{};
};

using Formula = std::function<void(Element& element, double gradient, double rate, int step)>;

// An optimizer, and its formula as Keras has it.
struct FormulaCase {
  std::string label;
  std::shared_ptr<const FlatOptimizer> optimizer;
  Formula formula;
};

double square(double value) {
  return value * value;
}

Formula rmsprop(double rho, double momentum, double epsilon) {
  return [=](Element& element, double gradient, double rate, int) {
    double &mean_square = element.state[0], &buffer = element.state[1];
    mean_square = rho * mean_square + (1 - rho) * square(gradient);
    buffer = momentum * buffer + rate * gradient / std::sqrt(mean_square + epsilon);
    element.value -= buffer;
  };
}

Formula adam(double beta1, double beta2, double epsilon, bool is_amsgrad) {
  return [=](Element& element, double gradient, double rate, int step) {
    auto& [mean, mean_square, largest] = element.state;
    const double alpha = rate * std::sqrt(1 - std::pow(beta2, step)) / (1 - std::pow(beta1, step));
    mean += (gradient - mean) * (1 - beta1);
    mean_square += (square(gradient) - mean_square) * (1 - beta2);
    largest = std::max(largest, mean_square);
    const double root = std::sqrt(is_amsgrad ? largest : mean_square);
    element.value -= mean * alpha / (root + epsilon);
  };
}

Formula adagrad(double initial, double epsilon) {
  return [=](Element& element, double gradient, double rate, int step) {
    if (step == 1) element.state[0] = initial;
    element.state[0] += square(gradient);
    element.value -= rate * gradient / std::sqrt(element.state[0] + epsilon);
  };
}

Formula adadelta(double rho, double epsilon) {
  return [=](Element& element, double gradient, double rate, int) {
    double &squares = element.state[0], &deltas = element.state[1];
    squares = rho * squares + (1 - rho) * square(gradient);
    const double delta = -std::sqrt(deltas + epsilon) * gradient / std::sqrt(squares + epsilon);
    deltas = rho * deltas + (1 - rho) * square(delta);
    element.value += rate * delta;
  };
}

Formula adamax(double beta1, double beta2, double epsilon) {
  return [=](Element& element, double gradient, double rate, int step) {
    double &mean = element.state[0], &norm = element.state[1];
    mean += (gradient - mean) * (1 - beta1);
    norm = std::max(beta2 * norm, std::abs(gradient));
    element.value -= rate * mean / ((1 - std::pow(beta1, step)) * (norm + epsilon));
  };
}

Formula nadam(double beta1, double beta2, double epsilon, double decay) {
  return [=](Element& element, double gradient, double rate, int step) {
    const auto momentum = [&](int at) { return beta1 * (1 - .5 * std::pow(.96, at * decay)); };
    double product = 1;
    for (int at = 1; at <= step; ++at) product *= momentum(at);
    double &mean = element.state[0], &mean_square = element.state[1];
    mean += (gradient - mean) * (1 - beta1);
    mean_square += (square(gradient) - mean_square) * (1 - beta2);
    const double next = momentum(step + 1);
    const double direction =
        next * mean / (1 - product * next) + (1 - momentum(step)) * gradient / (1 - product);
    const double root = std::sqrt(mean_square / (1 - std::pow(beta2, step)));
    element.value -= direction * rate / (root + epsilon);
  };
}

// Decay outside of a formula, coupled or not.
Formula decayed(const Formula& formula, double decay, bool is_decoupled) {
  return [=](Element& element, double gradient, double rate, int step) {
    if (!is_decoupled) return formula(element, gradient + decay * element.value, rate, step);
    element.value -= element.value * decay * rate;
    formula(element, gradient, rate, step);
  };
}

std::vector<FormulaCase> formula_cases() {
  return {
      {"Rmsprop", make_rmsprop({}), rmsprop(.9, 0, 1e-7)},
      {"RmspropMomentum", make_rmsprop({.rho = .8, .momentum = .7}), rmsprop(.8, .7, 1e-7)},
      {"RmspropDecay", make_rmsprop({.momentum = .5, .weight_decay = .1, .decoupled_decay = true}),
       decayed(rmsprop(.9, .5, 1e-7), .1, true)},
      {"Adagrad", make_adagrad({}), adagrad(.1, 1e-7)},
      {"AdagradFromOne",
       make_adagrad({.initial_accumulator = 1, .epsilon = .1, .weight_decay = .1}),
       decayed(adagrad(1, .1), .1, false)},
      {"Adadelta", make_adadelta({}), adadelta(.95, 1e-7)},
      {"AdadeltaLargeEpsilon", make_adadelta({.rho = .5, .epsilon = .1, .weight_decay = .2}),
       decayed(adadelta(.5, .1), .2, false)},
      {"Adamax", make_adamax({}), adamax(.9, .999, 1e-7)},
      {"AdamaxShortMemory",
       make_adamax(
           {.beta1 = .5, .beta2 = .6, .epsilon = .1, .weight_decay = .1, .decoupled_decay = true}),
       decayed(adamax(.5, .6, .1), .1, true)},
      {"Nadam", make_nadam({}), nadam(.9, .999, 1e-7, 1)},
      {"NadamSlowMomentum",
       make_nadam(
           {.beta1 = .8, .beta2 = .9, .epsilon = .01, .momentum_decay = .004, .weight_decay = .1}),
       decayed(nadam(.8, .9, .01, .004), .1, false)},
      {"NadamConstantMomentum", make_nadam({.momentum_decay = 0}), nadam(.9, .999, 1e-7, 0)},
      {"NadamWithoutMomentum", make_nadam({.beta1 = 0}), nadam(0, .999, 1e-7, 1)},
      {"KerasAdam", make_adam({.epsilon = 1e-3, .epsilon_before_correction = true}),
       adam(.9, .999, 1e-3, false)},
      {"KerasAmsgrad",
       make_adam({.beta2 = .5, .epsilon = .1, .amsgrad = true, .epsilon_before_correction = true}),
       adam(.9, .5, .1, true)},
  };
}

class AgainstFormula : public ::testing::TestWithParam<FormulaCase> {};

// The rate changes from step to step, which shows where it goes in.
double rate_of(int step) {
  return .02 * (1 + step % 3);
}

template <typename T>
void compare_with_formula(const FormulaCase& test, double tolerance) {
  torch::manual_seed(7);
  auto buffers = random_buffers<T>(203, *test.optimizer);
  std::vector<Element> elements(buffers.parameters.size());
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i].value = buffers.parameters[i];
  for (int step = 1; step <= 25; ++step) {
    as_tensor(buffers.gradients).normal_();
    test.optimizer->update(buffers.whole(), rate_of(step), step);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      test.formula(elements[i], buffers.gradients[i], rate_of(step), step);
      ASSERT_NEAR(buffers.parameters[i], elements[i].value,
                  tolerance * (1 + std::abs(elements[i].value)))
          << "element " << i << ", step " << step;
    }
  }
}

TEST_P(AgainstFormula, Float) {
  compare_with_formula<float>(GetParam(), 2e-5);
}
TEST_P(AgainstFormula, Double) {
  compare_with_formula<double>(GetParam(), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, AgainstFormula, ::testing::ValuesIn(formula_cases()),
                         [](const auto& each) { return each.param.label; });

TEST(Nadam, KnowsItsMomentumLateInATraining) {
  for (const double decay : {1., .004}) {
    const auto optimizer = make_nadam({.momentum_decay = decay});
    for (const int step : {1000, 20000}) {
      Buffers<double> buffers(1);
      buffers.parameters = {1};
      buffers.gradients = {.3};
      buffers.state[0] = {.2};
      buffers.state[1] = {.05};
      Element element{1, {.2, .05, 0}};
      optimizer->update(buffers.whole(), .1, step);
      nadam(.9, .999, 1e-7, decay)(element, .3, .1, step);
      EXPECT_NEAR(buffers.parameters[0], element.value, 1e-13) << decay << ", " << step;
    }
  }
}

TEST(AdaptiveOptimizers, DecayMaySpareVectors) {
  const auto optimizers = [](bool excludes) {
    std::vector<std::unique_ptr<FlatOptimizer>> all;
    all.push_back(make_rmsprop({.weight_decay = .1, .decay_excludes_vectors = excludes}));
    all.push_back(make_adagrad(
        {.weight_decay = .1, .decoupled_decay = true, .decay_excludes_vectors = excludes}));
    all.push_back(make_sgd({.weight_decay = .1, .decay_excludes_vectors = excludes}));
    all.push_back(make_adam(
        {.weight_decay = .1, .decoupled_decay = true, .decay_excludes_vectors = excludes}));
    return all;
  };
  const auto sparing = optimizers(true), decaying = optimizers(false);
  for (std::size_t i = 0; i < sparing.size(); ++i) {
    EXPECT_TRUE(sparing[i]->spares_vectors());
    EXPECT_FALSE(decaying[i]->spares_vectors());
    Buffers<double> vector(1, *sparing[i]), other(1, *sparing[i]), reference(1, *sparing[i]);
    for (auto* const buffers : {&vector, &other, &reference}) buffers->parameters = {1};
    auto slice = vector.whole();
    slice.is_vector = true;
    sparing[i]->update(slice, .1, 1);
    sparing[i]->update(other.whole(), .1, 1);
    decaying[i]->update(reference.whole(), .1, 1);
    EXPECT_EQ(vector.parameters[0], 1) << "without a gradient only decay moves a parameter";
    EXPECT_LT(other.parameters[0], 1);
    EXPECT_EQ(other.parameters, reference.parameters);
  }
}

}  // namespace
}  // namespace kolo::testing
