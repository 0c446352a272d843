#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/utils/clip_grad.h>

#include "kolo/base/error.h"
#include "kolo/tensor_parallel/mesh_gradients.h"
#include "kolo/tensor_parallel/parallel_linear.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"
#include "tensor_cases.h"

namespace kolo::testing {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct CutNet : torch::nn::Module {
  explicit CutNet(const Communicator& group)
      : up(register_module("up", ColumnParallelLinear(group, 3, 8))),
        down(register_module("down", RowParallelLinear(group, 8, 5))),
        last(register_module("last", torch::nn::Linear(5, 2))) {}
  ColumnParallelLinear up;
  RowParallelLinear down;
  torch::nn::Linear last;
};

struct WholeNet : torch::nn::Module {
  WholeNet()
      : up(register_module("up", torch::nn::Linear(3, 8))),
        down(register_module("down", torch::nn::Linear(8, 5))),
        last(register_module("last", torch::nn::Linear(5, 2))) {
    set_numbers(*this);
  }
  torch::nn::Linear up, down, last;
};

// Gradients that are the values, on one rank and cut alike.
void set_gradients(torch::nn::Module& module) {
  for (auto& parameter : module.parameters()) parameter.mutable_grad() = parameter.detach().clone();
}

RANK_TEST(MeshGradients, NormAndClippingAreThoseOfTheWholeNetwork) {
  for (std::int64_t tensor = 1; tensor <= communicator.size(); tensor *= 2) {
    const DeviceMesh mesh(communicator, {.tensor = tensor});
    const auto& group = mesh.axis(MeshAxis::tensor);
    for (const double norm_type : {2., 1., 3., infinity}) {
      WholeNet whole;
      CutNet cut(group);
      set_whole_parameters(group, cut, values_of(whole, same_name));
      set_gradients(whole);
      set_gradients(cut);
      const double limit = .1;
      const double expected =
          torch::nn::utils::clip_grad_norm_(whole.parameters(), limit, norm_type);
      EXPECT_NEAR(mesh_gradient_norm(mesh, cut, norm_type), expected, 1e-6 * expected);
      EXPECT_NEAR(clip_gradient_norm(mesh, cut, limit, norm_type), expected, 1e-6 * expected);
      const auto gradients = whole_gradients(group, cut);
      for (const auto& item : whole.named_parameters())
        expect_close(gradients[item.key()], item.value().grad(), 1e-6, item.key());
      // Below the limit nothing changes.
      const auto before = cut.up->weight.grad().clone();
      EXPECT_LT(clip_gradient_norm(mesh, cut, 2 * limit, norm_type), 1.001 * limit);
      EXPECT_TRUE(torch::equal(cut.up->weight.grad(), before));
    }
  }
}

RANK_TEST(MeshGradients, StagesCountToo) {
  const DeviceMesh mesh(communicator, {.pipeline = communicator.size()});
  torch::nn::Linear stage(1, 1);
  stage->weight.mutable_grad() = torch::full({1, 1}, 3.);
  EXPECT_NEAR(mesh_gradient_norm(mesh, *stage), 3 * std::sqrt(communicator.size()), 1e-12);
}

RANK_TEST(MeshGradients, OneThatIsNotFiniteScalesNothing) {
  const auto mesh = tensor_mesh(communicator);
  CutNet cut(mesh.axis(MeshAxis::tensor));
  set_gradients(cut);
  const bool is_last = communicator.rank() == communicator.size() - 1;
  if (is_last) cut.up->bias.mutable_grad()[0] = infinity;
  const auto before = cut.last->weight.grad().clone();
  EXPECT_EQ(clip_gradient_norm(mesh, cut, .1), infinity);
  EXPECT_TRUE(torch::equal(cut.last->weight.grad(), before));
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)mesh_gradient_norm(mesh, cut, 0); }),
                   {"a norm of type 0"}));
}

RANK_TEST(MeshGradients, WhatIsNotANumberIsNotLost) {
  const auto mesh = tensor_mesh(communicator);
  CutNet cut(mesh.axis(MeshAxis::tensor));
  set_gradients(cut);
  if (communicator.rank() == communicator.size() - 1) cut.up->bias.mutable_grad()[0] = NAN;
  EXPECT_TRUE(std::isnan(mesh_gradient_norm(mesh, cut)));
  EXPECT_EQ(mesh_gradient_norm(mesh, cut, infinity), infinity);
}

RANK_TEST(MeshGradients, TiedParametersCountOnce) {
  const auto mesh = tensor_mesh(communicator);
  const auto& group = mesh.axis(MeshAxis::tensor);
  const ColumnParallelOptions options{.bias = false};
  ColumnParallelLinear first(group, 4, 4, options);
  torch::nn::Module both;
  both.register_module("first", first.ptr());
  both.register_module("again", first.ptr());
  first->weight.mutable_grad() = torch::ones_like(first->weight);
  EXPECT_NEAR(clip_gradient_norm(mesh, both, 2), 4, 1e-12);
  EXPECT_NEAR(mesh_gradient_norm(mesh, both), 2, 1e-6);
}

RANK_TEST(MeshGradients, AMissingOneOfASequenceIsAnError) {
  if (communicator.size() == 1) return;
  RowParallelLinear layer(communicator, 4, 2, RowParallelOptions{.sequence_dimension = 0});
  EXPECT_TRUE(says(message_of<Error>([&] { sum_sequence_gradients(communicator, *layer); }),
                   {"bias has none on rank"}));
}

}  // namespace

}  // namespace kolo::testing
