#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "kolo/nn/weights.h"
#include "nn/kernels/fused.h"
#include "nn/models/model_parts.h"

namespace kolo::networks {

namespace {

class CnnNetwork final : public Network {
 public:
  CnnNetwork(const ModelOptions& shapes, double dropout)
      : convolution1_(add("convolution1", channels_of(shapes, "cnn", 8), 16)),
        convolution2_(add("convolution2", 16, 32)),
        convolution3_(add("convolution3", 32, 64)),
        hidden_(register_module("hidden", dense(flattened(shapes, 64, reduced), 128))),
        dropout_(register_module("dropout", torch::nn::Dropout(dropout))),
        output_(register_module("output", dense(128, shapes.classes))) {}

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

  static std::int64_t reduced(std::int64_t length) { return length / 8; }

  Convolution2d convolution1_, convolution2_, convolution3_;
  torch::nn::Linear hidden_;
  torch::nn::Dropout dropout_;
  torch::nn::Linear output_;
};

}  // namespace

// The small classifier of the NERSC tutorial (models/cnn.py): three times a 3x3 convolution (16,
// 32, 64), relu and 2x2 max-pooling; dense 128, relu, dropout, dense. Weights are glorot_uniform
// and biases zero, as is Keras's default. 156074 parameters for 3x32x32 and 10 classes. Images of
// at least 8x8.
struct Cnn {
  std::optional<double> dropout;

  void complete() { dropout = dropout.value_or(0); }
  [[nodiscard]] std::shared_ptr<Network> make(const ModelOptions& shapes) const {
    return std::make_shared<CnnNetwork>(shapes, dropout.value());
  }
};

template <typename Field>
void visit(Field& field, Cnn& model) {
  field("dropout", model.dropout, fraction);
}

ModelEntry cnn() {
  return entry_of<Cnn>("cnn",
                       "three 3x3 convolutions (16, 32, 64) with pooling, linear 128; 156 thousand "
                       "parameters on CIFAR-10");
}

}  // namespace kolo::networks
