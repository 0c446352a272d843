#include "kolo/nn/network.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "kernels/fused.h"
#include "kolo/base/error.h"
#include "kolo/kernels/autocast.h"
#include "kolo/nn/models.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/small_models.h"

// Stages whose inside is computed again in backward.
namespace kolo::testing {
namespace {

// Small models with the dropout that they have by themselves.
std::vector<SmallModel> models() {
  auto all = small_models();
  for (auto& model : all) {
    if (model.name != "cnn") model.options.dropout = std::nullopt;
    if (model.name == "cnn") model.options.dropout = .25;
  }
  return all;
}

// Results of two steps: outputs, gradients, buffers, and the generator's next number.
struct Outcome {
  std::vector<torch::Tensor> tensors;
  std::vector<std::string> names;

  void add(const std::string& name, const torch::Tensor& tensor) {
    names.push_back(name);
    tensors.push_back(tensor.detach().clone());
  }
};

using Chain = std::function<std::vector<NetworkStage>(const Network&)>;

Outcome train(const SmallModel& model, Precision precision, const Chain& chain) {
  torch::manual_seed(1);
  const auto network = make_network(model.name, model.options);
  const auto stages = chain(*network);
  torch::manual_seed(2);
  Outcome outcome;
  for (int step = 0; step < 2; ++step) {
    auto input = model.input(3).requires_grad_();
    torch::Tensor output;
    {
      const AutocastGuard autocast(precision);
      output = run_stages(stages, {input}).front();
    }
    output.square().mean().backward();
    outcome.add("output", output);
    outcome.add("gradient of the input", input.grad());
  }
  for (const auto& item : network->named_parameters())
    outcome.add("gradient of " + item.key(), item.value().grad());
  for (const auto& item : network->named_buffers()) outcome.add(item.key(), item.value());
  outcome.add("next random number", torch::rand({1}));
  return outcome;
}

void expect_same(const Outcome& found, const Outcome& expected) {
  ASSERT_EQ(found.names, expected.names);
  for (std::size_t i = 0; i < found.tensors.size(); ++i)
    EXPECT_TRUE(found.tensors[i].equal(expected.tensors[i])) << found.names[i];
}

std::vector<NetworkStage> kept(const Network& network) {
  return network.stages();
}
std::vector<NetworkStage> recomputed_of(const Network& network) {
  return recomputed(network.stages());
}

class Recompute : public ::testing::TestWithParam<SmallModel> {};

TEST_P(Recompute, HasTheBitsOfWhatIsKept) {
  // (LibTorch's own operators are slow in bfloat16.)
  for (const auto& [is_plain, precision] :
       {std::pair(false, Precision::fp32), std::pair(false, Precision::bf16),
        std::pair(true, Precision::fp32)}) {
    const PlainKernels plain(is_plain);
    expect_same(train(GetParam(), precision, recomputed_of), train(GetParam(), precision, kept));
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Recompute, ::testing::ValuesIn(models()), name_of);

// x to exp(x), whose backward needs the result.
struct Exponential {
  int calls = 0;
  c10::weak_intrusive_ptr<c10::TensorImpl> inside{
      c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>()};

  NetworkStage stage() {
    return {"exponential", {}, [this](const StagePayload& payload) -> StagePayload {
              ++calls;
              const auto made = payload.front().exp();
              inside = c10::weak_intrusive_ptr<c10::TensorImpl>(made.getIntrusivePtr());
              return {made.sum()};
            }};
  }
};

TEST(Recompute, KeepsNothingOfTheInsideAndComputesItOnceMore) {
  Exponential exponential;
  const auto stages = recomputed({exponential.stage()});
  const auto input = torch::randn({5}).requires_grad_();
  const auto output = run_stages(stages, {input}).front();
  EXPECT_TRUE(exponential.inside.expired());
  EXPECT_EQ(exponential.calls, 1);
  output.backward();
  EXPECT_EQ(exponential.calls, 2);
  EXPECT_TRUE(input.grad().equal(input.detach().exp()));
}

TEST(Recompute, JustComputesWithoutGradients) {
  Exponential exponential;
  const auto stages = recomputed({exponential.stage()});
  const torch::NoGradGuard no_gradient;
  EXPECT_FALSE(run_stages(stages, {torch::zeros({3})}).front().requires_grad());
  EXPECT_EQ(exponential.calls, 1);
}

// The stage changes the first of its inputs, and hands the second one on.
TEST(Recompute, LeavesInputsAloneThatAStageChangesInPlace) {
  const NetworkStage stage{"in place", {}, [](const StagePayload& payload) -> StagePayload {
                             return {payload[0].mul_(payload[1]), payload[1]};
                           }};
  const auto stages = recomputed({stage});
  const auto first = torch::randn({4}).requires_grad_(),
             second = torch::randn({4}).requires_grad_();
  for (int pass = 0; pass < 2; ++pass) {
    const auto given = first.sigmoid();  // which needs its result for backward
    const auto outputs = run_stages(stages, {given, second});
    EXPECT_TRUE(outputs[1].is_same(second));
    (outputs[0] * outputs[1]).sum().backward();
  }
  const auto sigmoid = first.detach().sigmoid(), factor = second.detach();
  EXPECT_TRUE(torch::allclose(first.grad(), 2 * sigmoid * (1 - sigmoid) * factor * factor));
  EXPECT_TRUE(torch::allclose(second.grad(), 4 * sigmoid * factor));
}

TEST(Recompute, RefusesInputsThatHaveChangedSince) {
  Exponential exponential;
  const auto stages = recomputed({exponential.stage()});
  const auto leaf = torch::randn({5}).requires_grad_();
  auto input = leaf * 1;
  const auto output = run_stages(stages, {input}).front();
  input.mul_(2);
  EXPECT_TRUE(says(message_of<Error>([&] { output.backward(); }),
                   {"input 0 of stage exponential was changed in place"}));
}

}  // namespace
}  // namespace kolo::testing
