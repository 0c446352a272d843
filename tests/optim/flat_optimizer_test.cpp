#include "kolo/optim/flat_optimizer.h"

#include <cmath>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "kolo/base/error.h"
#include "optim/every_optimizer.h"
#include "optim/flat_buffers.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using ::testing::ElementsAreArray;

using TorchFactory =
    std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)>;

// An optimizer and torch's, which it must follow.
struct TorchCase {
  std::string label;
  std::shared_ptr<const FlatOptimizer> optimizer;
  TorchFactory reference;
};

constexpr double usual_rate = 0.02;

template <typename Optimizer, typename Options>
TorchCase torch_case(const std::string& label, std::shared_ptr<const FlatOptimizer> ours,
                     const Options& options) {
  return {label, std::move(ours), [options](std::vector<torch::Tensor> parameters) {
            return std::make_unique<Optimizer>(std::move(parameters), options);
          }};
}

TorchCase sgd_case(const std::string& label, const SgdOptions& options) {
  return torch_case<torch::optim::SGD>(label, make_sgd(options),
                                       torch::optim::SGDOptions(usual_rate)
                                           .momentum(options.momentum)
                                           .dampening(options.dampening)
                                           .weight_decay(options.weight_decay)
                                           .nesterov(options.nesterov));
}

template <typename Optimizer, typename Options>
TorchCase adam_case(const std::string& label, const AdamOptions& options) {
  return torch_case<Optimizer>(label, make_adam(options),
                               Options(usual_rate)
                                   .betas({options.beta1, options.beta2})
                                   .eps(options.epsilon)
                                   .weight_decay(options.weight_decay)
                                   .amsgrad(options.amsgrad));
}

// RMSprop in PyTorch's form.
TorchCase rmsprop_case(const std::string& label, RmspropOptions options) {
  options.as_keras = false;
  return torch_case<torch::optim::RMSprop>(label, make_rmsprop(options),
                                           torch::optim::RMSpropOptions(usual_rate)
                                               .alpha(options.rho)
                                               .eps(options.epsilon)
                                               .weight_decay(options.weight_decay)
                                               .momentum(options.momentum)
                                               .centered(options.centered));
}

TorchCase adagrad_case(const std::string& label, AdagradOptions options) {
  options.epsilon_in_root = false;
  return torch_case<torch::optim::Adagrad>(
      label, make_adagrad(options),
      torch::optim::AdagradOptions(usual_rate)
          .initial_accumulator_value(options.initial_accumulator)
          .eps(options.epsilon)
          .weight_decay(options.weight_decay));
}

std::vector<TorchCase> torch_cases() {
  const auto adam = adam_case<torch::optim::Adam, torch::optim::AdamOptions>;
  const auto adamw = adam_case<torch::optim::AdamW, torch::optim::AdamWOptions>;
  return {sgd_case("Plain", {}),
          sgd_case("WeightDecay", {.weight_decay = 0.1}),
          sgd_case("Momentum", {.momentum = 0.9}),
          sgd_case("Dampening", {.momentum = 0.9, .dampening = 0.3, .weight_decay = 0.05}),
          sgd_case("Nesterov", {.momentum = 0.8, .weight_decay = 0.01, .nesterov = true}),
          adam("Adam", {}),
          adam("AdamWeightDecay", {.beta1 = 0.8, .beta2 = 0.9, .weight_decay = 0.1}),
          adam("AdamLargeEpsilon", {.beta1 = 0, .epsilon = 0.1}),
          adamw("AdamW", {.weight_decay = 0.1, .decoupled_decay = true}),
          adamw("AdamWWithoutDecay", {.decoupled_decay = true}),
          adam("Amsgrad", {.beta2 = 0.5, .weight_decay = 0.1, .amsgrad = true}),
          rmsprop_case("Rmsprop", {}),
          rmsprop_case("RmspropMomentum", {.rho = 0.8, .momentum = 0.9, .weight_decay = 0.1}),
          rmsprop_case("RmspropCentered", {.epsilon = 1e-3, .centered = true}),
          rmsprop_case("RmspropMomentumCentered", {.momentum = 0.5, .centered = true}),
          adagrad_case("Adagrad", {.weight_decay = 0.1}),
          adagrad_case("AdagradFromZero", {.initial_accumulator = 0, .epsilon = 1e-10})};
}

class AgainstTorch : public ::testing::TestWithParam<TorchCase> {};

template <typename T>
void compare_with_torch(const TorchCase& test, double tolerance) {
  torch::manual_seed(7);
  auto buffers = random_buffers<T>(1003, *test.optimizer);  // not a multiple of a vector's length
  torch::Tensor reference = as_tensor(buffers.parameters).clone().requires_grad_();
  const auto torch_optimizer = test.reference({reference});
  for (std::int64_t step = 1; step <= 20; ++step) {
    as_tensor(buffers.gradients).normal_();
    reference.mutable_grad() = as_tensor(buffers.gradients).clone();
    const double rate = usual_rate / static_cast<double>(1 + step % 3);
    torch_optimizer->param_groups()[0].options().set_lr(rate);
    torch_optimizer->step();
    test.optimizer->update(buffers.whole(), rate, step);
    ASSERT_TRUE(torch::allclose(as_tensor(buffers.parameters), reference, tolerance, tolerance))
        << "step " << step;
  }
}

TEST_P(AgainstTorch, Float) {
  compare_with_torch<float>(GetParam(), 1e-6);
}
TEST_P(AgainstTorch, Double) {
  compare_with_torch<double>(GetParam(), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, AgainstTorch, ::testing::ValuesIn(torch_cases()),
                         [](const auto& each) { return each.param.label; });

// A rank that updates only its slices must arrive at the same bits as one that updates everything.
TEST(FlatOptimizer, SlicesAddUpToTheWholeBitByBit) {
  torch::manual_seed(8);
  for (const auto& [label, optimizer] : every_optimizer()) {
    if (optimizer->is_layerwise()) continue;
    auto whole = random_buffers<float>(517, *optimizer);
    auto sliced = whole;
    for (std::int64_t step = 1; step <= 3; ++step) {
      optimizer->update(whole.whole(), usual_rate, step);
      std::vector<std::jthread> threads;  // which may share the optimizer
      std::size_t begin = 0;
      for (const std::size_t end : {1, 1, 8, 131, 400, 517}) {
        threads.emplace_back(
            [&, begin, end] { optimizer->update(sliced.slice(begin, end), usual_rate, step); });
        begin = end;
      }
    }
    EXPECT_EQ(whole.parameters, sliced.parameters) << label;
    EXPECT_EQ(whole.state, sliced.state) << label;
  }
}

TEST(FlatOptimizer, WhatIsNoNumberShows) {
  for (const auto& [label, optimizer] : every_optimizer()) {
    auto buffers = random_buffers<float>(40, *optimizer);
    buffers.gradients[17] = std::nanf("");
    optimizer->update(buffers.whole(), usual_rate, 1);
    EXPECT_TRUE(std::isnan(buffers.parameters[17])) << label;
    EXPECT_EQ(std::isnan(buffers.parameters[16]), optimizer->is_layerwise()) << label;
  }
}

TEST(FlatOptimizer, NamesItselfAndItsState) {
  using Names = std::vector<std::string_view>;
  const Names momentum = {"momentum_buffer"}, moments = {"exp_avg", "exp_avg_sq"};
  const auto expect_names = [](const std::shared_ptr<const FlatOptimizer>& optimizer,
                               const std::string& name, const Names& states) {
    EXPECT_EQ(optimizer->name(), name);
    EXPECT_THAT(optimizer->state_names(), ElementsAreArray(states)) << name;
    EXPECT_EQ(optimizer->is_layerwise(), name == "lars" || name == "lamb") << name;
    EXPECT_EQ(optimizer->for_use().has_value(), name.starts_with("schedule_free")) << name;
  };
  expect_names(make_sgd({}), "sgd", {});
  expect_names(make_sgd({.momentum = 0.5}), "sgd", momentum);
  expect_names(make_adam({}), "adam", moments);
  expect_names(make_adam({.decoupled_decay = true}), "adamw", moments);
  expect_names(make_adam({.amsgrad = true}), "adam", {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"});
  expect_names(make_adagrad({}), "adagrad", {"sum"});
  expect_names(make_rmsprop({.momentum = .1, .centered = true}), "rmsprop",
               {"square_avg", "momentum_buffer", "grad_avg"});
  expect_names(make_rmsprop({.centered = true}), "rmsprop", {"square_avg", "grad_avg"});
  expect_names(make_adadelta({}), "adadelta", {"square_avg", "acc_delta"});
  expect_names(make_adamax({}), "adamax", {"exp_avg", "exp_inf"});
  expect_names(make_nadam({}), "nadam", moments);
  expect_names(make_lars({}), "lars", momentum);
  expect_names(make_lars({.momentum = 0}), "lars", {});
  expect_names(make_lamb({}), "lamb", moments);
  expect_names(make_schedule_free_sgd({}), "schedule_free_sgd", {"z_minus_x"});
  expect_names(make_schedule_free_adamw({}), "schedule_free_adamw", {"z_minus_x", "exp_avg_sq"});
  EXPECT_EQ(make_adagrad({})->initial_state(0), .1);
}

TEST(FlatOptimizer, TheFirstStepDoesNotReadTheMomentum) {
  for (const bool nesterov : {false, true}) {
    Buffers<float> buffers(40);
    buffers.state[0].assign(40, std::numeric_limits<float>::quiet_NaN());
    buffers.gradients.assign(40, 2);
    make_sgd({.momentum = 0.5, .nesterov = nesterov})->update(buffers.whole(), 1, 1);
    EXPECT_THAT(buffers.parameters, ::testing::Each(nesterov ? -3.0F : -2.0F));
    EXPECT_THAT(buffers.state[0], ::testing::Each(2.0F));
  }
}

TEST(FlatOptimizer, SpansOfUnusedStateMayBeEmpty) {
  std::vector<float> parameters = {1, 2}, momentum = {0, 0};
  const std::vector<float> gradients = {1, 1};
  make_sgd({.momentum = 0.5})->update(FlatSlice<float>{parameters, gradients, {momentum}}, 0.5, 1);
  EXPECT_THAT(parameters, ElementsAre(0.5F, 1.5F));
  make_sgd({})->update(FlatSlice<float>{parameters, gradients, {}}, 0.5, 1);
  EXPECT_THAT(parameters, ElementsAre(0.0F, 1.0F));
  EXPECT_NO_THROW(make_adam({})->update(FlatSlice<double>{}, 0.5, 1));
}

TEST(FlatOptimizer, WrongCallsChangeNothing) {
  const auto adam = make_adam({});
  auto buffers = random_buffers<float>(8, *adam);
  const auto before = buffers.parameters;
  const auto message = [&](const FlatSlice<float>& slice, double learning_rate, std::int64_t step) {
    return message_of<Error>([&] { adam->update(slice, learning_rate, step); });
  };
  auto few_gradients = buffers.whole();
  few_gradients.gradients = few_gradients.gradients.first(7);
  EXPECT_TRUE(says(message(few_gradients, usual_rate, 1), {"7 gradients for 8 parameters"}));
  auto no_state = buffers.whole();
  no_state.state[1] = {};
  EXPECT_TRUE(
      says(message(no_state, usual_rate, 1), {"0 elements of exp_avg_sq for 8 parameters"}));
  EXPECT_TRUE(says(message(buffers.whole(), usual_rate, 0), {"step 0"}));
  EXPECT_TRUE(says(message(buffers.whole(), -1, 1), {"learning rate -1"}));
  EXPECT_TRUE(says(message(buffers.whole(), std::nan(""), 1), {"learning rate nan"}));
  EXPECT_EQ(buffers.parameters, before);
}

TEST(FlatOptimizer, OptionsOutOfRangeAreInputErrors) {
  const double nan = std::nan("");
  const auto refused = [](auto make, const auto& options, std::string_view message) {
    EXPECT_TRUE(says(message_of<InputError>([&] { (void)make(options); }), {message}));
  };
  using Sgd = SgdOptions;
  refused(make_sgd, Sgd{.momentum = -0.1}, "sgd: momentum is -0.1, expected");
  refused(make_sgd, Sgd{.momentum = nan}, "momentum is nan");
  refused(make_sgd, Sgd{.dampening = nan}, "dampening is nan");
  refused(make_sgd, Sgd{.weight_decay = -1}, "weight_decay is -1");
  refused(make_sgd, Sgd{.nesterov = true}, "momentum is 0, expected a number above 0");
  refused(make_sgd, Sgd{.momentum = 0.9, .dampening = 0.1, .nesterov = true},
          "dampening is 0.1, expected 0 for nesterov");
  refused(make_adam, AdamOptions{.beta1 = 1}, "adam: beta1 is 1, expected a number from 0");
  refused(make_adam, AdamOptions{.beta2 = -0.5}, "beta2 is -0.5");
  refused(make_adam, AdamOptions{.epsilon = -1e-8}, "epsilon is -1e-08");
  refused(make_adam, AdamOptions{.weight_decay = INFINITY, .decoupled_decay = true},
          "adamw: weight_decay is inf");
  refused(make_rmsprop, RmspropOptions{.rho = 1}, "rmsprop: rho is 1");
  refused(make_rmsprop, RmspropOptions{.momentum = -1}, "momentum is -1");
  refused(make_adagrad, AdagradOptions{.initial_accumulator = -1},
          "adagrad: initial_accumulator is -1");
  refused(make_adadelta, AdadeltaOptions{.epsilon = -1}, "epsilon is -1");
  refused(make_adamax, AdamaxOptions{.beta2 = 2}, "adamax: beta2 is 2");
  refused(make_nadam, NadamOptions{.momentum_decay = -1}, "momentum_decay is -1");
  refused(make_nadam, NadamOptions{.weight_decay = nan}, "nadam: weight_decay is nan");
  refused(make_lars, LarsOptions{.trust_coefficient = 0},
          "lars: trust_coefficient is 0, expected a number above 0");
  refused(make_lars, LarsOptions{.weight_decay = -1}, "weight_decay is -1");
  refused(make_lamb, LambOptions{.beta1 = 1}, "lamb: beta1 is 1");
  refused(make_schedule_free_sgd, ScheduleFreeSgdOptions{.momentum = 1},
          "schedule_free_sgd: momentum is 1");
  refused(make_schedule_free_adamw, ScheduleFreeAdamwOptions{.beta2 = -1},
          "schedule_free_adamw: beta2 is -1");
}

TEST(FlatOptimizerOnADevice, AWorkspaceTooSmallIsAnError) {
  const auto lamb = make_lamb({});
  EXPECT_EQ(make_adam({})->device_workspace_bytes(1000), 0);
  const StepConstants constants{};
  std::vector<std::byte> workspace(lamb->device_workspace_bytes(0));
  std::vector<float> values(1);
  const FlatSlice<float> slice{values, values, {values, values}};
  EXPECT_TRUE(says(message_of<Error>([&] {
                     lamb->update_on_device(slice,
                                            {.constants = &constants, .workspace = workspace});
                   }),
                   {"a workspace of 16 bytes for a step of 1 elements on a device, expected 32"}));
}

}  // namespace
}  // namespace kolo::testing
