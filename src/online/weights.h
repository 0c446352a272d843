#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "online/samples.h"

namespace kolo::online {

// What infer() computes with: the weights of one version, and how its arrays are normalized.
// Tensors may be those that are trained (live), or copies.
struct Weights {
  std::int64_t version = 0;
  std::vector<torch::Tensor> parameters, buffers;
  std::shared_ptr<const Normalization> normalization = std::make_shared<Normalization>();

  // A module's own tensors.
  [[nodiscard]] static Weights of(const torch::nn::Module& module);
  // The same values in memory of their own.
  [[nodiscard]] Weights copy() const;
  [[nodiscard]] std::vector<torch::Tensor> tensors() const;
  // Of all values; a change of any element changes it.
  [[nodiscard]] std::uint64_t checksum() const;
};

// A module's weights as they are now, asked for after each step: its tensors are looked up once,
// and again only when their memory has moved, as an arena moves it after the first step.
class LiveWeights {
 public:
  explicit LiveWeights(const torch::nn::Module& module);
  [[nodiscard]] const Weights& now();

 private:
  std::vector<torch::Tensor> tensors_;  // the module's own
  std::vector<const void*> places_;
  std::size_t n_parameters_;
  Weights weights_;
};

}  // namespace kolo::online
