// The constants of a step and what they make of one element: what devices are given is what the
// host's loops take. Compiled without fused multiplications and additions, as those are.
#include <type_traits>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "base/reduction_order.h"
#include "kolo/base/error.h"
#include "kolo/optim/flat_optimizer.h"
#include "optim/element_steps.h"
#include "optim/every_optimizer.h"
#include "optim/flat_buffers.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

constexpr double rate = .02;

// The optimizers by the step that they make, as make_...() chooses it.
template <typename T, typename Visit>
void visit_elementwise(const Visit& visit) {
  using namespace optim;
  const auto find = [](const std::string& label) {
    for (const auto& each : every_optimizer()) {
      if (each.label == label) return each.optimizer;
    }
    throw Error("no optimizer " + label);
  };
  visit(find("Sgd"), std::type_identity<SgdStep<T>>());
  visit(find("SgdDecoupled"), std::type_identity<SgdStep<T>>());
  visit(find("SgdMomentum"), std::type_identity<SgdMomentumStep<T, false>>());
  visit(find("SgdNesterov"), std::type_identity<SgdMomentumStep<T, true>>());
  visit(find("Adam"), std::type_identity<AdamStep<T, false>>());
  visit(find("AdamW"), std::type_identity<AdamStep<T, false>>());
  visit(find("AdamKeras"), std::type_identity<AdamStep<T, false>>());
  visit(find("Amsgrad"), std::type_identity<AdamStep<T, true>>());
  visit(find("Rmsprop"), std::type_identity<RmspropStep<T, false, false>>());
  visit(find("RmspropMomentum"), std::type_identity<RmspropStep<T, true, false>>());
  visit(find("RmspropCentered"), std::type_identity<RmspropStep<T, false, true>>());
  visit(find("RmspropMomentumCentered"), std::type_identity<RmspropStep<T, true, true>>());
  visit(find("Adagrad"), std::type_identity<AdagradStep<T>>());
  visit(find("Adadelta"), std::type_identity<AdadeltaStep<T>>());
  visit(find("Adamax"), std::type_identity<AdamaxStep<T>>());
  visit(find("Nadam"), std::type_identity<NadamStep<T>>());
  visit(find("ScheduleFreeSgd"), std::type_identity<ScheduleFreeSgdStep<T>>());
  visit(find("ScheduleFreeAdamw"), std::type_identity<ScheduleFreeAdamwStep<T>>());
}

template <typename Step, typename T>
void step_each_element(const Step& step, Buffers<T>& buffers) {
  for (std::size_t i = 0; i < buffers.parameters.size(); ++i) {
    T state[3] = {buffers.state[0][i], buffers.state[1][i], buffers.state[2][i]};
    step(buffers.parameters[i], buffers.gradients[i], state);
    for (std::size_t slot = 0; slot < Step::states; ++slot) buffers.state[slot][i] = state[slot];
  }
}

template <typename T>
void compare_with_updates() {
  torch::manual_seed(3);
  visit_elementwise<T>([]<typename Step>(const auto& optimizer, std::type_identity<Step>) {
    ASSERT_EQ(Step::states, optimizer->state_names().size()) << optimizer->name();
    auto updated = random_buffers<T>(133, *optimizer);
    auto stepped = updated;
    for (std::int64_t step = 1; step <= 3; ++step) {
      optimizer->update(updated.whole(), rate, step);
      const auto constants = optimizer->constants(rate, step, false);
      step_each_element(optim::step_of<Step>(constants.data()), stepped);
    }
    EXPECT_EQ(updated.parameters, stepped.parameters) << optimizer->name();
    EXPECT_EQ(updated.state, stepped.state) << optimizer->name();
  });
}

TEST(ElementStep, WithAnOptimizersConstantsIsItsUpdate) {
  compare_with_updates<float>();
  compare_with_updates<double>();
}

TEST(StepConstants, AreTheStepsAndTellVectorsApart) {
  for (const auto& each : every_optimizer()) {
    const auto first = each.optimizer->constants(rate, 1, false);
    EXPECT_EQ(first, each.optimizer->constants(rate, 1, false)) << each.label;
    EXPECT_NE(first, each.optimizer->constants(2 * rate, 1, false)) << each.label;
  }
  const auto sparing = make_adam({.weight_decay = .1, .decay_excludes_vectors = true});
  EXPECT_NE(sparing->constants(rate, 1, true), sparing->constants(rate, 1, false));
  EXPECT_EQ(sparing->constants(rate, 1, true), make_adam({})->constants(rate, 1, true));
  EXPECT_NE(make_adam({})->constants(rate, 1, false), make_adam({})->constants(rate, 2, false));
  const auto momentum = make_sgd({.momentum = .5});
  EXPECT_NE(momentum->constants(rate, 1, false), momentum->constants(rate, 2, false));
  EXPECT_EQ(momentum->constants(rate, 2, false), momentum->constants(rate, 3, false));
}

// A program's own, which knows nothing of devices.
class HostOptimizer final : public FlatOptimizer {
 public:
  [[nodiscard]] std::string name() const override { return "own"; }
  [[nodiscard]] std::span<const std::string_view> state_names() const override { return {}; }
  void update(const FlatSlice<float>&, StepRate, std::int64_t) const override {}
  void update(const FlatSlice<double>&, StepRate, std::int64_t) const override {}
};

TEST(StepConstants, AnOptimizerWithoutDeviceStepsSaysSo) {
  const HostOptimizer own;
  const std::string expected = "optimizer own: it has no step on CUDA devices";
  EXPECT_TRUE(says(message_of<Error>([&] { (void)own.constants(rate, 1, false); }), {expected}));
  EXPECT_TRUE(
      says(message_of<Error>([&] { own.update_on_device(FlatSlice<float>{}, {}); }), {expected}));
  EXPECT_TRUE(
      says(message_of<Error>([&] { own.update_on_device(FlatSlice<double>{}, {}); }), {expected}));
}

TEST(ReductionOrder, AddsEveryTermOnce) {
  const auto add = [](std::size_t a, std::size_t b) { return a + b; };
  for (const std::size_t terms : {0, 1, 255, 256, 4095, 4096, 4097, 100'000}) {
    const auto sum = reduction::total(
        terms, std::size_t{0}, [](std::size_t i) { return i + 1; }, add);
    EXPECT_EQ(sum, terms * (terms + 1) / 2) << terms;
  }
}

}  // namespace
}  // namespace kolo::testing
