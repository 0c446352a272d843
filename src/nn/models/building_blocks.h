#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/types.h>

#include "kolo/base/checked.h"
#include "kolo/kernels/convolution.h"
#include "kolo/kernels/linear.h"
#include "kolo/nn/models.h"
#include "settings/choice_reader.h"

// Entries of the catalogue of models, and the parts of networks. An entry is a struct of settings
// with a visit() for its keys and
//   std::shared_ptr<Network> make(const ModelOptions& shapes) const;
// and, where it needs them, check() and complete() (see set_settings).
namespace kolo::networks {

template <ConfigStruct T>
[[nodiscard]] ModelEntry entry_of(const std::string& name, const std::string& description) {
  ModelEntry entry{{name, description}};
  set_settings<T>(entry);
  entry.make = [](const OwnSettings& own, const ModelOptions& shapes) {
    return own.as<T>().make(shapes);
  };
  return entry;
}

// A network that is written down as the chain of its stages.
class ChainNetwork : public Network {
 public:
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input) final;
  [[nodiscard]] std::vector<NetworkStage> stages() const final { return stages_; }

 protected:
  using Modules = std::vector<NetworkStage::NamedModule>;

  // The next stage, of one tensor in and one out. `forward` holds the modules that it needs.
  void add_stage(std::string name, Modules modules,
                 std::function<torch::Tensor(torch::Tensor)> forward);
  // The next stage, of any payload.
  void add_stage(NetworkStage stage) { stages_.push_back(std::move(stage)); }

 private:
  std::vector<NetworkStage> stages_;
};

// The channels of a model's input, which must be an image of at least minimum x minimum pixels:
// channels, height, width. InputError for any other.
[[nodiscard]] std::int64_t channels_of(const ModelOptions& shapes, std::string_view model,
                                       std::int64_t minimum);

// The elements left for the linear layers: `channels` of the input's size after `reduce`, which
// maps a height or width.
template <typename Reduce>
[[nodiscard]] std::int64_t flattened(const ModelOptions& shapes, std::int64_t channels,
                                     Reduce reduce) {
  return checked_multiply(
      channels, checked_multiply(reduce(shapes.input_shape[1]), reduce(shapes.input_shape[2])));
}

// Random weights, in place and not recorded for backward, from torch's default generator. Weights
// are laid out as torch has them: [outputs, inputs, ...kernel], floating.

// Normal with mean 0 and standard deviation sqrt(2 / fan in), where the normal is cut off at two of
// its own standard deviations (what lies outside is drawn again) and widened so that the deviation
// after the cut is that; Keras's he_normal. Fan in is inputs times kernel elements. (He et al.,
// arXiv:1502.01852.)
void he_normal(const torch::Tensor& weight);
// Uniform within +-sqrt(6 / (fan in + fan out)); Keras's glorot_uniform, torch's xavier_uniform.
// (Glorot and Bengio, 2010.)
void glorot_uniform(const torch::Tensor& weight);

// Layers with the initialization that the networks of the Keras tutorials have.

struct ConvolutionShape {
  std::int64_t inputs = 0;  // channels
  std::int64_t outputs = 0;
  std::int64_t kernel = 1;  // height and width
  std::int64_t stride = 1;
  bool bias = true;
  std::int64_t positions = 0;  // of its input, height x width; 0: not known
};

// A convolution padded by kernel / 2 on every side, its bias zero, its weights not yet initialized.
// An odd kernel with stride 1 makes that Keras's padding 'same'. The weight's memory has the taps
// first if it will be computed by taps.
[[nodiscard]] Convolution2d padded_convolution(const ConvolutionShape& shape);

// A fully connected layer: glorot_uniform weights, zero bias.
[[nodiscard]] Linear dense(std::int64_t inputs, std::int64_t outputs);

struct BatchNormSettings {
  double momentum = 0.99;  // in Keras's sense
  double epsilon = 1e-3;
};

[[nodiscard]] torch::nn::BatchNorm2d batch_norm(std::int64_t channels,
                                                const BatchNormSettings& settings);

// Computes layers->forward(input), and with an addend relu(that + addend); batch norms take the
// ReLU or the addend after them along (kernels/fused.h).
[[nodiscard]] torch::Tensor forward_fused(torch::nn::Sequential& layers, torch::Tensor input,
                                          const torch::Tensor& addend = {});

}  // namespace kolo::networks
