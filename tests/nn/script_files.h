#pragma once

#include <string>

#include <torch/script.h>

// Scripts as torch.jit.script makes them, written down in C++.
namespace kolo::testing {

inline torch::jit::Module script_module(const std::string& name) {
  torch::jit::Module module(name);
  module.register_attribute("training", c10::BoolType::get(), true);
  return module;
}

// Two inputs, [N, 3] and [N, 2]; two outputs, [N, 4] and [N, 1]. In training mode it counts calls
// in a new tensor, and has a running mean of the first input.
inline torch::jit::Module pair_script(const std::string& gives = "(y, y.sum(1, True))") {
  auto inner = script_module("Inner");
  inner.register_parameter("weight", torch::randn({4, 2}, torch::requires_grad()), false);
  inner.register_buffer("calls", torch::zeros({}, torch::kInt64));
  inner.define(R"(
def forward(self, x):
  if self.training:
    self.calls = self.calls + 1
  return torch.linear(x, self.weight)
)");
  auto module = script_module("Pair");
  module.register_module("inner", inner);
  module.register_parameter("weight", torch::randn({4, 3}, torch::requires_grad()), false);
  module.register_buffer("mean", torch::zeros({3}));
  module.define(R"(
def forward(self, a, b):
  if self.training:
    self.mean.mul_(0.9).add_(a.mean(0), alpha=0.1)
  y = torch.linear(a - self.mean, self.weight) + torch.tanh(self.inner.forward(b))
  return )" + gives +
                "\n");
  return module;
}

}  // namespace kolo::testing
