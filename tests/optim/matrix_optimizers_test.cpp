#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "kolo/base/error.h"
#include "kolo/optim/flat_optimizer.h"
#include "support/errors.h"

namespace kolo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using torch::Tensor;
using Sizes = std::vector<std::int64_t>;

// A parameter with what an optimizer over an arena would give its steps.
class OneParameter {
 public:
  OneParameter(const FlatOptimizer& optimizer, Sizes shape, torch::ScalarType type, bool is_outer,
               Sizes strides = {})
      : optimizer_(optimizer),
        shape_(std::move(shape)),
        strides_(std::move(strides)),
        is_outer_(is_outer) {
    const auto fresh = [&] {
      return strides_.empty() ? torch::zeros(shape_, type)
                              : torch::empty_strided(shape_, strides_, type).zero_();
    };
    value = fresh().normal_();
    gradient = fresh();
    for (std::size_t i = 0; i < optimizer.state_names().size(); ++i) state.push_back(fresh());
    std::int64_t count = 0;
    for (const auto& own : optimizer.own_state(shape_, is_outer)) {
      std::int64_t elements = 1;
      for (const auto length : own.shape) elements *= length;
      count += elements;
    }
    own_state = torch::zeros({count}, type);
  }

  void step(double rate, std::int64_t number) {
    if (value.scalar_type() == torch::kDouble)
      optimizer_.update(slice<double>(), rate, number);
    else
      optimizer_.update(slice<float>(), rate, number);
  }

  template <typename T>
  FlatSlice<T> slice() {
    FlatSlice<T> slice;
    slice.parameters = span_of<T>(value);
    slice.gradients = span_of<T>(gradient);
    for (std::size_t i = 0; i < state.size(); ++i) slice.state.at(i) = span_of<T>(state[i]);
    slice.is_vector = shape_.size() < 2;
    slice.is_outer = is_outer_;
    slice.shape = shape_;
    slice.strides = strides_;
    slice.own_state = span_of<T>(own_state);
    return slice;
  }

  Tensor value, gradient, own_state;
  std::vector<Tensor> state;

 private:
  template <typename T>
  static std::span<T> span_of(const Tensor& tensor) {
    return {tensor.data_ptr<T>(), static_cast<std::size_t>(tensor.numel())};
  }

  const FlatOptimizer& optimizer_;
  Sizes shape_, strides_;
  bool is_outer_;
};

// What a formula keeps of a parameter, in double.
struct Kept {
  Tensor value;
  std::map<std::string, Tensor> state;

  Tensor& of(const std::string& name, Sizes shape) {
    auto& tensor = state[name];
    if (!tensor.defined()) tensor = torch::zeros(shape, torch::kDouble);
    return tensor;
  }
};

using MatrixFormula = std::function<void(Kept&, const Tensor& gradient, double rate, int step)>;

double varied_rate(std::int64_t step) {
  return .02 * static_cast<double>(1 + step % 3);
}

void expect_formula(const FlatOptimizer& optimizer, const MatrixFormula& formula,
                    const Sizes& shape, torch::ScalarType type, double tolerance,
                    bool is_outer = false, const Sizes& strides = {}) {
  OneParameter parameter(optimizer, shape, type, is_outer, strides);
  Kept kept{parameter.value.to(torch::kDouble).contiguous().clone(), {}};
  for (std::int64_t step = 1; step <= 12; ++step) {
    parameter.gradient.normal_();
    formula(kept, parameter.gradient.to(torch::kDouble).contiguous(), varied_rate(step),
            static_cast<int>(step));
    parameter.step(varied_rate(step), step);
    ASSERT_TRUE(parameter.value.to(torch::kDouble).allclose(kept.value, tolerance, tolerance))
        << optimizer.name() << ", " << kept.value.sizes() << ", step " << step << ": "
        << (parameter.value - kept.value).abs().max();
  }
}

MatrixFormula adamw_formula(double ratio, double beta1, double beta2, double epsilon,
                            double decay) {
  return [=](Kept& kept, const Tensor& gradient, double rate, int step) {
    auto& mean = kept.of("mean", gradient.sizes().vec());
    auto& square = kept.of("square", gradient.sizes().vec());
    mean = beta1 * mean + (1 - beta1) * gradient;
    square = beta2 * square + (1 - beta2) * gradient.square();
    kept.value = kept.value * (1 - ratio * rate * decay) -
                 ratio * rate * (mean / (1 - std::pow(beta1, step))) /
                     ((square / (1 - std::pow(beta2, step))).sqrt() + epsilon);
  };
}

// The report's program, line by line.
Tensor newton_schulz(const Tensor& gradient) {
  const double a = 3.4445, b = -4.7750, c = 2.0315;
  auto x = gradient / std::max(gradient.norm().item<double>(), 1e-7);
  const bool transpose = gradient.size(0) > gradient.size(1);
  if (transpose) x = x.t();
  for (int i = 0; i < 5; ++i) {
    const auto gram = torch::matmul(x, x.t());
    x = a * x + torch::matmul(b * gram + c * torch::matmul(gram, gram), x);
  }
  return transpose ? x.t() : x;
}

MatrixFormula muon_formula(bool nesterov, bool original, double decay) {
  return [=](Kept& kept, const Tensor& gradient, double rate, int) {
    auto& buffer = kept.of("buffer", gradient.sizes().vec());
    buffer = torch::lerp(buffer, gradient, .05);
    const auto update = nesterov ? torch::lerp(gradient, buffer, .95) : buffer;
    const auto matrix = update.reshape({update.size(0), -1});
    const auto rows = static_cast<double>(matrix.size(0)),
               columns = static_cast<double>(matrix.size(1));
    const double scale = original ? std::sqrt(std::max(1., rows / columns))
                                  : .2 * std::sqrt(std::max(rows, columns));
    kept.value = kept.value * (1 - rate * decay) -
                 rate * scale * newton_schulz(matrix).reshape(update.sizes());
  };
}

TEST(Muon, FollowsItsFormula) {
  torch::manual_seed(1);
  for (const Sizes& shape :
       {Sizes{4, 7}, Sizes{33, 5}, Sizes{11, 8}, Sizes{16, 16}, Sizes{6, 3, 2, 2}, Sizes{1, 9}}) {
    const auto muon = make_muon({.weight_decay = .1});
    expect_formula(*muon, muon_formula(true, true, .1), shape, torch::kDouble, 1e-11);
    expect_formula(*muon, muon_formula(true, true, .1), shape, torch::kFloat, 2e-3);
    const auto plain = make_muon({.nesterov = false, .adjust = MuonAdjustment::match_rms_adamw});
    expect_formula(*plain, muon_formula(false, false, 0), shape, torch::kDouble, 1e-11);
  }
}

// A convolution's weight that lies by taps is the same matrix.
TEST(Muon, LooksAtShapesNotAtTheOrderInMemory) {
  torch::manual_seed(2);
  const Sizes shape = {6, 5, 3, 2}, taps_first = {5, 1, 60, 30};
  expect_formula(*make_muon({}), muon_formula(true, true, 0), shape, torch::kDouble, 1e-11, false,
                 taps_first);
  expect_formula(*make_muon({}), adamw_formula(.015, .9, .95, 1e-10, 0), shape, torch::kDouble,
                 1e-12, true, taps_first);
}

TEST(Muon, TrainsWhatIsNoHiddenMatrixByAdamw) {
  torch::manual_seed(3);
  const auto muon = make_muon({.weight_decay = .1, .adamw_rate_ratio = .5});
  const auto formula = adamw_formula(.5, .9, .95, 1e-10, .1);
  expect_formula(*muon, formula, {13}, torch::kDouble, 1e-12);
  expect_formula(*muon, formula, {4, 6}, torch::kDouble, 1e-12, true);
  expect_formula(*muon, formula, {4, 6}, torch::kFloat, 1e-5, true);
  expect_formula(*make_muon({.hidden_only = false}), muon_formula(true, true, 0), {4, 6},
                 torch::kDouble, 1e-11, true);
  const auto sparing =
      make_muon({.weight_decay = .1, .decay_excludes_vectors = true, .adamw_rate_ratio = .5});
  expect_formula(*sparing, adamw_formula(.5, .9, .95, 1e-10, 0), {13}, torch::kDouble, 1e-12);
}

TEST(Muon, StepsAreNearlyOrthogonal) {
  torch::manual_seed(4);
  for (const Sizes& shape :
       {Sizes{40, 60}, Sizes{60, 40}, Sizes{40, 90}, Sizes{90, 40}, Sizes{30, 3000}}) {
    const auto muon = make_muon({.momentum = 0, .adjust = MuonAdjustment::original});
    OneParameter parameter(*muon, shape, torch::kFloat, false);
    parameter.gradient.normal_();
    parameter.value.zero_();
    parameter.step(1, 1);
    const double scale = std::sqrt(std::max(1., static_cast<double>(shape[0]) / shape[1]));
    const auto lengths =
        std::get<1>(torch::linalg_svd(parameter.value.to(torch::kDouble) / scale, false));
    EXPECT_GT(lengths.min().item<double>(), .6);
    EXPECT_LT(lengths.max().item<double>(), 1.3);
  }
}

TEST(Muon, TellsWhatAStepCosts) {
  const auto muon = make_muon({});
  const Sizes wide = {10, 200}, tall = {200, 10}, vector = {200};
  const Sizes square = {10, 10};
  EXPECT_EQ(muon->step_operations(square, false), 5 * 6 * 1000);
  EXPECT_EQ(muon->step_operations(wide, false), 4 * 100 * 200 + 5 * 8 * 1000);
  EXPECT_EQ(muon->step_operations(tall, false), muon->step_operations(wide, false));
  EXPECT_EQ(muon->step_operations(wide, true), 0);
  EXPECT_EQ(muon->step_operations(vector, false), 0);
}

// Algorithm 3 of the paper with the details of the authors' program: the first step begins the
// preconditioners, and they follow after a step.
MatrixFormula soap_formula(bool has_left, bool has_right, int every, double decay) {
  return [=](Kept& kept, const Tensor& gradient, double rate, int step) {
    const auto g = gradient.reshape({gradient.size(0), -1});
    const auto rows = g.size(0), columns = g.size(1);
    const Sizes sizes = {rows, columns};
    auto &mean = kept.of("mean", sizes), &square = kept.of("square", sizes);
    auto &left = kept.of("left", {rows, rows}), &right = kept.of("right", {columns, columns});
    auto &ql = kept.of("ql", {rows, rows}), &qr = kept.of("qr", {columns, columns});
    if (step == 1) {
      ql = torch::eye(rows, torch::kDouble);
      qr = torch::eye(columns, torch::kDouble);
    } else {
      const int t = step - 1;
      const auto project = [&](const Tensor& of) { return ql.t().matmul(of).matmul(qr); };
      mean = .95 * mean + .05 * g;
      square = .9 * square + .1 * project(g).square();
      const auto direction = ql.matmul(project(mean) / (square.sqrt() + 1e-8)).matmul(qr.t());
      const double size = rate * std::sqrt(1 - std::pow(.9, t)) / (1 - std::pow(.95, t));
      kept.value = kept.value * (1 - rate * decay) - size * direction.reshape(gradient.sizes());
    }
    // To the bit: where a gradient has fewer directions than a side, any basis of the rest will do.
    left = .8 * left + (1 - .8) * g.matmul(g.t());
    right = .8 * right + (1 - .8) * g.t().matmul(g);
    const auto follow = [&](Tensor& basis, const Tensor& average, int dimension) {
      if (step == 1) {
        basis = std::get<1>(torch::linalg_eigh(average)).flip(1);
      } else if ((step - 1) % every == 0) {
        const auto lengths = basis.t().matmul(average).matmul(basis).diagonal();
        const auto order = lengths.argsort(0, true);
        square = square.index_select(dimension, order);
        basis = std::get<0>(torch::linalg_qr(average.matmul(basis.index_select(1, order))));
      }
    };
    if (has_left) follow(ql, left, 0);
    if (has_right) follow(qr, right, 1);
  };
}

TEST(Soap, FollowsItsFormula) {
  torch::manual_seed(5);
  const SoapOptions options{.beta2 = .9,
                            .preconditioner_beta = .8,
                            .precondition_every = 3,
                            .largest_side = 12,
                            .weight_decay = .1};
  const auto soap = make_soap(options);
  expect_formula(*soap, soap_formula(true, true, 3, .1), {4, 7}, torch::kDouble, 1e-9);
  expect_formula(*soap, soap_formula(true, true, 3, .1), {9, 3}, torch::kDouble, 1e-9);
  expect_formula(*soap, soap_formula(true, true, 3, .1), {5, 3, 2, 2}, torch::kDouble, 1e-9);
  expect_formula(*soap, soap_formula(true, true, 3, .1), {5, 3, 2, 2}, torch::kDouble, 1e-9, false,
                 {3, 1, 30, 15});
  expect_formula(*soap, soap_formula(true, false, 3, .1), {4, 20}, torch::kDouble, 1e-9);
  expect_formula(*soap, soap_formula(false, true, 3, .1), {13, 5}, torch::kDouble, 1e-9);
  // Adam's, without a step that only begins.
  const auto adamw = adamw_formula(1, .95, .9, 1e-8, .1);
  expect_formula(*soap, adamw, {13, 20}, torch::kDouble, 1e-12);
  expect_formula(*soap, adamw, {17}, torch::kDouble, 1e-12);
}

// Bases of more columns than a gradient has directions in them are orthogonal all the same.
TEST(Soap, BasesStayOrthogonal) {
  torch::manual_seed(6);
  const auto soap = make_soap({.precondition_every = 1});
  OneParameter parameter(*soap, {3, 24}, torch::kFloat, false);
  for (std::int64_t step = 1; step <= 30; ++step) {
    parameter.gradient.normal_();
    parameter.step(.01, step);
  }
  const auto basis = parameter.own_state.narrow(0, 2 * 9 + 24 * 24, 24 * 24).view({24, 24});
  EXPECT_TRUE(basis.t().mm(basis).allclose(torch::eye(24), 1e-4, 1e-4));
  EXPECT_TRUE(parameter.value.isfinite().all().item<bool>());
}

TEST(Soap, RefusesAGradientThatIsNotFinite) {
  const auto soap = make_soap({});
  OneParameter parameter(*soap, {3, 4}, torch::kFloat, false);
  parameter.gradient.fill_(std::nan(""));
  EXPECT_THAT(message_of<Error>([&] { parameter.step(.1, 1); }),
              HasSubstr("soap: a gradient is not finite"));
}

TEST(MatrixOptimizers, NameThemselvesAndTheirState) {
  const auto muon = make_muon({}), soap = make_soap({.largest_side = 10});
  EXPECT_EQ(muon->name(), "muon");
  EXPECT_EQ(soap->name(), "soap");
  for (const auto* each : {muon.get(), soap.get()}) {
    EXPECT_TRUE(each->is_layerwise());
    EXPECT_FALSE(each->has_device_steps());
  }
  EXPECT_THAT(muon->state_names(), ElementsAre("exp_avg"));
  EXPECT_THAT(soap->state_names(), ElementsAre("exp_avg", "exp_avg_sq"));
  const Sizes matrix = {4, 3, 5}, vector = {7};
  EXPECT_TRUE(muon->own_state(matrix, false).empty());
  EXPECT_EQ(muon->own_state(matrix, true).at(0).shape, matrix);
  EXPECT_EQ(muon->own_state(vector, false).at(0).name, "exp_avg_sq");
  const auto left = soap->own_state(matrix, false);
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(left[1].name, "left_basis");
  EXPECT_THAT(left[1].shape, ElementsAre(4, 4));
  EXPECT_TRUE(soap->own_state(vector, false).empty());
}

TEST(MatrixOptimizers, WhatIsWrongIsRefused) {
  EXPECT_THAT(message_of<InputError>([] { (void)make_muon({.momentum = 1}); }),
              HasSubstr("muon: momentum is 1"));
  EXPECT_THAT(message_of<InputError>([] { (void)make_muon({.iterations = 0}); }),
              HasSubstr("muon: iterations is 0, expected a whole number from 1"));
  EXPECT_THAT(message_of<InputError>([] { (void)make_soap({.precondition_every = 0}); }),
              HasSubstr("soap: precondition_every is 0"));
  const auto muon = make_muon({});
  OneParameter parameter(*muon, {3, 4}, torch::kFloat, false);
  auto slice = parameter.slice<float>();
  const Sizes wrong = {3, 5};
  slice.shape = wrong;
  EXPECT_THAT(message_of<Error>([&] { muon->update(slice, .1, 1); }),
              HasSubstr("muon: 12 elements and 0 of own state for a parameter of shape [3, 5], "
                        "expected 15 and 0"));
}

}  // namespace
}  // namespace kolo
