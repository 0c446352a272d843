#pragma once

#include <ostream>
#include <string>
#include <vector>

#include <torch/nn/cloneable.h>
#include <torch/nn/options/normalization.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include "kolo/tensor_parallel/parameter_parts.h"

namespace kolo {

// torch::nn::LayerNorm on this rank's part of a sequence: what it computes needs no other rank, but
// the gradients of its parameters, which are replicated, are those of this rank's part, to be added
// up by sum_sequence_gradients() (kolo/tensor_parallel/mesh_gradients.h). Without `sequence_parts`
// it is torch::nn::LayerNorm on replicated inputs, for networks that work in either way.
// (Korthikanti et al., arXiv:2205.05198, section 4.2.2.)
class PartLayerNormImpl : public torch::nn::Cloneable<PartLayerNormImpl>, public PartsOfParameters {
 public:
  explicit PartLayerNormImpl(const torch::nn::LayerNormOptions& options,
                             bool sequence_parts = true);
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  torch::Tensor forward(const torch::Tensor& input);

  [[nodiscard]] std::vector<std::string> sequence_parameters() const override;

  torch::nn::LayerNormOptions options;
  torch::Tensor weight, bias;  // undefined where options.elementwise_affine() is false

 private:
  bool sequence_parts_;
};
TORCH_MODULE(PartLayerNorm);

}  // namespace kolo
