#include "nn/models/cnn.h"

#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "kolo/base/checked.h"
#include "kolo/nn/initialization.h"
#include "nn/kernels/max_pool_relu.h"
#include "nn/models/image_input.h"
#include "nn/models/layers.h"

namespace kolo {

namespace {

class Cnn final : public Network {
 public:
  explicit Cnn(const ModelOptions& options)
      : convolution1_(add("convolution1", channels_of(options, "cnn", 8), 16)),
        convolution2_(add("convolution2", 16, 32)),
        convolution3_(add("convolution3", 32, 64)),
        hidden_(register_module("hidden", dense(flattened(options), 128))),
        dropout_(register_module("dropout", torch::nn::Dropout(options.dropout.value_or(0)))),
        output_(register_module("output", dense(128, options.classes))) {}

  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input) override {
    torch::Tensor x = max_pool_relu(convolution1_(input));
    x = max_pool_relu(convolution2_(x));
    x = max_pool_relu(convolution3_(x));
    return output_(dropout_(hidden_(x.flatten(1)).relu_()));
  }

 private:
  Convolution2d add(const char* name, std::int64_t inputs, std::int64_t outputs) {
    const auto convolution = padded_convolution({inputs, outputs, 3});
    glorot_uniform(convolution->weight);
    return register_module(name, convolution);
  }

  static std::int64_t flattened(const ModelOptions& options) {
    return checked_multiply<std::int64_t>(
        64, checked_multiply(options.input_shape[1] / 8, options.input_shape[2] / 8));
  }

  Convolution2d convolution1_, convolution2_, convolution3_;
  torch::nn::Linear hidden_;
  torch::nn::Dropout dropout_;
  torch::nn::Linear output_;
};

}  // namespace

std::shared_ptr<Network> make_cnn(const ModelOptions& options) {
  return std::make_shared<Cnn>(options);
}

}  // namespace kolo
