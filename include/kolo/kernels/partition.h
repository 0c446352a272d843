#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <torch/types.h>

// Networks compute samples that several ranks share without knowing of ranks: each layer asks for
// the rows that it reads, and hands over the rows it made. A Partition (Network::share_samples())
// knows how rows travel.
//
// All ranks that share a sample go through the same layers in the same order, forward and backward.
namespace kolo {

// Rows of one layer. Tensors are [N, C, ...] with this rank's rows along each axis, or all rows
// where a level is too small to be cut; autograd sees what happens to them.
class LayerPart {
 public:
  virtual ~LayerPart() = default;

  // The rows that the layer reads: with those of neighbours, or all of them.
  [[nodiscard]] virtual torch::Tensor input_rows(const torch::Tensor& input) const = 0;
  // Padding that is left to the layer, by axis.
  [[nodiscard]] virtual std::span<const std::int64_t> padding() const = 0;
  // Whether output_rows() adds rows up: then a bias is to be added behind it, not before.
  [[nodiscard]] virtual bool adds_rows() const = 0;
  // This rank's rows of the layer's output.
  [[nodiscard]] virtual torch::Tensor output_rows(const torch::Tensor& output) const = 0;
};

class Partition {
 public:
  virtual ~Partition() = default;
  // Part of the layer with that place in Network::field_layers().
  [[nodiscard]] virtual std::shared_ptr<const LayerPart> layer(std::size_t index) const = 0;
};

}  // namespace kolo
