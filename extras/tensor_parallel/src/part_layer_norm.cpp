#include "kolo/tensor_parallel/part_layer_norm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kolo {

PartLayerNormImpl::PartLayerNormImpl(const torch::nn::LayerNormOptions& options_,
                                     bool sequence_parts)
    : options(options_), sequence_parts_(sequence_parts) {
  reset();
}

void PartLayerNormImpl::reset() {
  const auto& shape = options.normalized_shape();
  const bool is_affine = options.elementwise_affine();
  weight =
      register_parameter("weight", is_affine ? torch::ones(shape) : torch::Tensor(), is_affine);
  bias = register_parameter("bias", is_affine ? torch::zeros(shape) : torch::Tensor(), is_affine);
}

void PartLayerNormImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("kolo::PartLayerNorm([{}], eps={})",
                        fmt::join(options.normalized_shape(), ", "), options.eps());
}

torch::Tensor PartLayerNormImpl::forward(const torch::Tensor& input) {
  return torch::layer_norm(input, options.normalized_shape(), weight, bias, options.eps());
}

std::vector<std::string> PartLayerNormImpl::sequence_parameters() const {
  if (options.elementwise_affine() && sequence_parts_) return {"weight", "bias"};
  return {};
}

}  // namespace kolo
