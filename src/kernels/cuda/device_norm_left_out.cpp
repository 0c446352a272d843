#include "kernels/fused.h"

namespace kolo {

std::optional<torch::Tensor> batch_norm_on_device(torch::nn::BatchNorm2dImpl& /*norm*/,
                                                  const torch::Tensor& /*input*/,
                                                  const torch::Tensor& /*addend*/,
                                                  Activation /*activation*/) {
  return std::nullopt;
}

}  // namespace kolo
