#pragma once

#include <memory>
#include <utility>

#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include "kernels/convolution_kernel.h"

// Helpers of autograd functions that compute by a kernel.
namespace kolo {

// A kernel that autograd keeps from forward to backward.
class KeptKernel : public torch::CustomClassHolder {
 public:
  explicit KeptKernel(std::shared_ptr<ConvolutionKernel> kernel) : kernel_(std::move(kernel)) {}

  static void keep(const std::shared_ptr<ConvolutionKernel>& kernel,
                   torch::autograd::AutogradContext& context) {
    context.saved_data["kernel"] =
        c10::IValue::make_capsule(c10::make_intrusive<KeptKernel>(kernel));
  }
  [[nodiscard]] static std::shared_ptr<ConvolutionKernel> of(
      torch::autograd::AutogradContext& context) {
    const auto capsule = context.saved_data["kernel"].toCapsule();
    return static_cast<KeptKernel&>(*capsule).kernel_;
  }

 private:
  std::shared_ptr<ConvolutionKernel> kernel_;
};

// An undefined tensor can't be an argument of autograd's functions, one that isn't there can.
[[nodiscard]] inline c10::optional<torch::Tensor> if_defined(const torch::Tensor& tensor) {
  return tensor.defined() ? c10::make_optional(tensor) : c10::nullopt;
}

}  // namespace kolo
