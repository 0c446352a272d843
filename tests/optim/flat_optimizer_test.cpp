#include "kolo/optim/flat_optimizer.h"

#include <cmath>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "kolo/base/error.h"
#include "optim/flat_buffers.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo {
namespace {

using testing::as_tensor;
using testing::Buffers;
using ::testing::ElementsAre;
using testing::message_of;
using testing::random_buffers;

using TorchFactory =
    std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)>;

// An optimizer and torch's, which it must follow.
struct TorchCase {
  std::string label;
  std::shared_ptr<const FlatOptimizer> optimizer;
  TorchFactory reference;
};

constexpr double usual_rate = 0.02;

TorchCase sgd_case(const std::string& label, const SgdOptions& options) {
  const auto torch_options = torch::optim::SGDOptions(usual_rate)
                                 .momentum(options.momentum)
                                 .dampening(options.dampening)
                                 .weight_decay(options.weight_decay)
                                 .nesterov(options.nesterov);
  return {label, make_sgd(options), [torch_options](std::vector<torch::Tensor> parameters) {
            return std::make_unique<torch::optim::SGD>(std::move(parameters), torch_options);
          }};
}

template <typename Optimizer, typename Options>
TorchCase adam_case(const std::string& label, const AdamOptions& options) {
  const auto torch_options = Options(usual_rate)
                                 .betas({options.beta1, options.beta2})
                                 .eps(options.epsilon)
                                 .weight_decay(options.weight_decay)
                                 .amsgrad(options.amsgrad);
  return {label, make_adam(options), [torch_options](std::vector<torch::Tensor> parameters) {
            return std::make_unique<Optimizer>(std::move(parameters), torch_options);
          }};
}

// With PyTorch's place for epsilon.
TorchCase rmsprop_case(const std::string& label, RmspropOptions options) {
  options.epsilon_in_root = false;
  const auto torch_options = torch::optim::RMSpropOptions(usual_rate)
                                 .alpha(options.rho)
                                 .eps(options.epsilon)
                                 .weight_decay(options.weight_decay)
                                 .momentum(options.momentum)
                                 .centered(options.centered);
  return {label, make_rmsprop(options), [torch_options](std::vector<torch::Tensor> parameters) {
            return std::make_unique<torch::optim::RMSprop>(std::move(parameters), torch_options);
          }};
}

TorchCase adagrad_case(const std::string& label, AdagradOptions options) {
  options.epsilon_in_root = false;
  const auto torch_options = torch::optim::AdagradOptions(usual_rate)
                                 .initial_accumulator_value(options.initial_accumulator)
                                 .eps(options.epsilon)
                                 .weight_decay(options.weight_decay);
  return {label, make_adagrad(options), [torch_options](std::vector<torch::Tensor> parameters) {
            return std::make_unique<torch::optim::Adagrad>(std::move(parameters), torch_options);
          }};
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
    torch_optimizer->step();
    test.optimizer->update(buffers.whole(), usual_rate, step);
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

// A rank that updates only its slices must arrive at the same bits as one that updates everything.
TEST_P(AgainstTorch, SlicesAddUpToTheWholeBitByBit) {
  torch::manual_seed(8);
  const FlatOptimizer& optimizer = *GetParam().optimizer;
  auto whole = random_buffers<float>(517, optimizer);
  auto sliced = whole;
  for (std::int64_t step = 1; step <= 3; ++step) {
    optimizer.update(whole.whole(), usual_rate, step);
    std::size_t begin = 0;
    for (const std::size_t end : {1, 1, 8, 131, 400, 517}) {
      optimizer.update(sliced.slice(begin, end), usual_rate, step);
      begin = end;
    }
  }
  EXPECT_EQ(whole.parameters, sliced.parameters);
  EXPECT_EQ(whole.state, sliced.state);
}

TEST_P(AgainstTorch, ThreadsMayShareTheOptimizer) {
  torch::manual_seed(9);
  const FlatOptimizer& optimizer = *GetParam().optimizer;
  auto serial = random_buffers<double>(4000, optimizer);
  auto parallel = serial;
  optimizer.update(serial.whole(), usual_rate, 1);
  {
    std::vector<std::jthread> threads;
    for (std::size_t begin = 0; begin < 4000; begin += 1000) {
      threads.emplace_back(
          [&, begin] { optimizer.update(parallel.slice(begin, begin + 1000), usual_rate, 1); });
    }
  }
  EXPECT_EQ(serial.parameters, parallel.parameters);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, AgainstTorch, ::testing::ValuesIn(torch_cases()),
                         [](const auto& each) { return each.param.label; });

TEST(FlatOptimizer, NamesItselfAndItsState) {
  EXPECT_EQ(make_sgd({})->name(), "sgd");
  EXPECT_EQ(make_adam({})->name(), "adam");
  EXPECT_EQ(make_adam({.decoupled_decay = true})->name(), "adamw");
  EXPECT_FALSE(make_adam({})->is_layerwise());
  EXPECT_FALSE(make_adam({.weight_decay = 0.1})->spares_vectors());
  EXPECT_TRUE(make_adam({.weight_decay = 0.1, .decay_excludes_vectors = true})->spares_vectors());
  EXPECT_TRUE(make_sgd({})->state_names().empty());
  const auto momentum = make_sgd({.momentum = 0.5});
  EXPECT_THAT(momentum->state_names(), ElementsAre("momentum_buffer"));
  const auto adam = make_adam({});
  EXPECT_THAT(adam->state_names(), ElementsAre("exp_avg", "exp_avg_sq"));
  const auto amsgrad = make_adam({.amsgrad = true});
  EXPECT_THAT(amsgrad->state_names(), ElementsAre("exp_avg", "exp_avg_sq", "max_exp_avg_sq"));
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
  const auto sgd = [](const SgdOptions& options) {
    return message_of<InputError>([&] { (void)make_sgd(options); });
  };
  EXPECT_TRUE(says(sgd({.momentum = -0.1}), {"sgd: momentum is -0.1, expected"}));
  EXPECT_TRUE(says(sgd({.momentum = std::nan("")}), {"momentum is nan"}));
  EXPECT_TRUE(says(sgd({.dampening = std::nan("")}), {"dampening is nan"}));
  EXPECT_TRUE(says(sgd({.weight_decay = -1}), {"weight_decay is -1"}));
  EXPECT_TRUE(says(sgd({.nesterov = true}), {"momentum is 0, expected a number above 0"}));
  EXPECT_TRUE(says(sgd({.momentum = 0.9, .dampening = 0.1, .nesterov = true}),
                   {"dampening is 0.1, expected 0 for nesterov"}));
  const auto adam = [](const AdamOptions& options) {
    return message_of<InputError>([&] { (void)make_adam(options); });
  };
  EXPECT_TRUE(says(adam({.beta1 = 1}), {"adam: beta1 is 1, expected a number from 0"}));
  EXPECT_TRUE(says(adam({.beta2 = -0.5}), {"beta2 is -0.5"}));
  EXPECT_TRUE(says(adam({.epsilon = -1e-8}), {"epsilon is -1e-08"}));
  EXPECT_TRUE(says(adam({.weight_decay = INFINITY, .decoupled_decay = true}),
                   {"adamw: weight_decay is inf"}));
}

TEST(FlatOptimizerOnADevice, AWorkspaceTooSmallIsAnError) {
  const auto lamb = make_lamb({});
  EXPECT_EQ(make_adam({})->device_workspace_bytes(1000), 0);
  const StepConstants constants{};
  std::vector<std::byte> workspace(lamb->device_workspace_bytes(0));
  std::vector<float> values(1);
  const FlatSlice<float> slice{values, values, {values, values}};
  EXPECT_TRUE(says(testing::message_of<Error>([&] {
                     lamb->update_on_device(slice,
                                            {.constants = &constants, .workspace = workspace});
                   }),
                   {"a workspace of 16 bytes for a step of 1 elements on a device, expected 32"}));
}

}  // namespace
}  // namespace kolo
