#pragma once

#include <utility>

#include <torch/nn/modules/batchnorm.h>
#include <torch/types.h>

namespace kolo {

// While one lives, this thread's networks compute by LibTorch's own operators instead of kolo's
// kernels (or by these, where it says so): for code that watches operators, and as the reference in
// tests.
class PlainKernels {
 public:
  explicit PlainKernels(bool is_wanted = true) : before_(std::exchange(wanted, is_wanted)) {}
  PlainKernels(const PlainKernels&) = delete;
  PlainKernels& operator=(const PlainKernels&) = delete;
  ~PlainKernels() { wanted = before_; }

  [[nodiscard]] static bool are_wanted() { return wanted; }

 private:
  // By thread, as LibTorch's own modes (NoGradGuard, AutoGradMode) are: ranks may be threads.
  inline static thread_local bool wanted = false;

  bool before_;
};

// Layers fused with the steps that follow them.

// max_pool2d(relu(input), 2) of [N, C, H, W], which is also relu(max_pool2d(input, 2)): in one pass
// forward and one backward for float32 and bfloat16 on CPUs in channels-last layout (C > 1), by
// LibTorch otherwise. Where the largest values of a window are alike, the first gets the gradient;
// where they are not positive none does.
[[nodiscard]] torch::Tensor max_pool_relu(const torch::Tensor& input);

enum class Activation : bool { none, relu };

// A batch norm with the steps that follow it, in as few passes over memory as there can be:
// activation(norm(input) + addend). An undefined addend is none. Like norm->forward() it uses up a
// batch: in training the running statistics follow.
//
// Float32 and bfloat16 (with a float32 norm) on CPUs in channels-last memory [N, C, H, W], in
// training, go through kolo's loops, which compute in float32: mean and variance in one pass,
// normalization, sum and activation in another; backward likewise.
// The result is then in channels-last memory, and no second derivatives are to be had (Error).
// Everything else is left to LibTorch's operators.
[[nodiscard]] torch::Tensor batch_norm(torch::nn::BatchNorm2dImpl& norm, const torch::Tensor& input,
                                       const torch::Tensor& addend, Activation activation);

}  // namespace kolo
