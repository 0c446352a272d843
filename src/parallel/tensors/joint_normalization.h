#pragma once

#include <torch/types.h>

#include "kolo/comm/communicator.h"

// Normalization by the mean and variance of the values of all ranks together.
namespace kolo::parallel {

// In float64, where the input is: nobody waits for a device to know them.
struct JointMoments {
  torch::Tensor count;    // values per channel: one number
  torch::Tensor mean;     // by channel
  torch::Tensor squares;  // by channel, the sum of the squared distances from the mean
};

// Values of each channel of [N, C, ...] on this rank.
[[nodiscard]] double values_per_channel(const torch::Tensor& input);

// Of all ranks' [N, C, ...], which may differ in all but C: one all-gather of 2 C + 1 float64,
// combined without cancellation (Chan, Golub and LeVeque, 1979), bit-identical on all ranks. Not
// seen by autograd.
[[nodiscard]] JointMoments joint_moments(const Communicator& communicator,
                                         const torch::Tensor& input);

// (input - mean) / sqrt(variance + eps) * weight + bias, by channel, with a variance of squares /
// count; autograd sees that the moments are the ranks' values'. The gradients of weight and bias
// are this rank's own. Its backward is one all-reduce of 2 C float64; no second derivatives
// (Error).
[[nodiscard]] torch::Tensor normalize_jointly(const Communicator& communicator,
                                              const torch::Tensor& input,
                                              const torch::Tensor& weight,
                                              const torch::Tensor& bias,
                                              const JointMoments& moments, double eps);

}  // namespace kolo::parallel
