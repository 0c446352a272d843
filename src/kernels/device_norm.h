#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <torch/nn/modules/batchnorm.h>
#include <torch/types.h>

#include "kernels/fused.h"

namespace kolo {

// batch_norm() of fused.h by kernels of a CUDA device, which read the input twice and write the
// output once, with what is added and the activation in it, forward and backward alike; nothing
// where they can't: tensors must be float32, float16 or bfloat16 in channels-last memory, the
// network in training, with a momentum. Nobody waits for the device.
[[nodiscard]] std::optional<torch::Tensor> batch_norm_on_device(torch::nn::BatchNorm2dImpl& norm,
                                                                const torch::Tensor& input,
                                                                const torch::Tensor& addend,
                                                                Activation activation);

}  // namespace kolo
