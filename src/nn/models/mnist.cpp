#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "kolo/nn/convolution.h"
#include "nn/kernels/fused.h"
#include "nn/models/model_parts.h"

namespace kolo::networks {

namespace {

class MnistNetwork final : public Network {
 public:
  MnistNetwork(const ModelOptions& shapes, double dropout)
      : conv1_(
            register_module("conv1", Convolution2d(channels_of(shapes, "mnist_net", 16), 10, 5))),
        conv2_(register_module("conv2", Convolution2d(10, 20, 5))),
        conv2_drop_(register_module("conv2_drop", torch::nn::Dropout2d(dropout))),
        fc1_(register_module("fc1", torch::nn::Linear(flattened(shapes, 20, reduced), 50))),
        fc1_drop_(register_module("fc1_drop", torch::nn::Dropout(dropout))),
        fc2_(register_module("fc2", torch::nn::Linear(50, shapes.classes))) {}

  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input) override {
    torch::Tensor x = max_pool_relu(conv1_(input));
    // As before the pooling, where there are four times the values: a scale of 0 or more for whole
    // channels commutes with maxima.
    x = conv2_drop_(max_pool_relu(conv2_(x)));
    x = fc1_drop_(torch::relu(fc1_(x.flatten(1))));
    return fc2_(x);
  }

 private:
  static std::int64_t reduced(std::int64_t length) { return ((length - 4) / 2 - 4) / 2; }

  Convolution2d conv1_, conv2_;
  torch::nn::Dropout2d conv2_drop_;
  torch::nn::Linear fc1_;
  torch::nn::Dropout fc1_drop_;
  torch::nn::Linear fc2_;
};

}  // namespace

// Conv 10 of 5x5, max-pool 2, relu; conv 20 of 5x5, channel dropout, max-pool 2, relu; linear 50,
// relu, dropout; linear to the classes. 21840 parameters for 1x28x28 and 10 classes. Starts from
// LibTorch's default initialization and accepts any image size that leaves something to flatten.
struct MnistNet {
  std::optional<double> dropout;

  void complete() { dropout = dropout.value_or(.5); }
  [[nodiscard]] std::shared_ptr<Network> make(const ModelOptions& shapes) const {
    return std::make_shared<MnistNetwork>(shapes, dropout.value());
  }
};

template <typename Field>
void visit(Field& field, MnistNet& model) {
  field("dropout", model.dropout, fraction);
}

ModelEntry mnist_net() {
  return entry_of<MnistNet>("mnist_net",
                            "two 5x5 convolutions (10, 20), channel dropout, linear 50; 22 "
                            "thousand parameters on MNIST");
}

namespace {

class MnistCnnNetwork final : public Network {
 public:
  MnistCnnNetwork(const ModelOptions& shapes, std::optional<double> dropout)
      : conv1_(register_module("conv1", Convolution2d(channels_of(shapes, "mnist_cnn", 6), 32, 3))),
        conv2_(register_module("conv2", Convolution2d(32, 64, 3))),
        conv2_drop_(register_module("conv2_drop", torch::nn::Dropout(dropout.value_or(0.25)))),
        fc1_(register_module("fc1", torch::nn::Linear(flattened(shapes, 64, reduced), 128))),
        fc1_drop_(register_module("fc1_drop", torch::nn::Dropout(dropout.value_or(0.5)))),
        fc2_(register_module("fc2", torch::nn::Linear(128, shapes.classes))) {}

  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input) override {
    torch::Tensor x = torch::relu(conv1_(input));
    x = conv2_drop_(max_pool_relu(conv2_(x)));
    x = fc1_drop_(torch::relu(fc1_(x.flatten(1))));
    return fc2_(x);
  }

 private:
  static std::int64_t reduced(std::int64_t length) { return (length - 4) / 2; }

  Convolution2d conv1_, conv2_;
  torch::nn::Dropout conv2_drop_;
  torch::nn::Linear fc1_;
  torch::nn::Dropout fc1_drop_;
  torch::nn::Linear fc2_;
};

}  // namespace

// Conv 32 of 3x3, relu; conv 64 of 3x3, relu, max-pool 2, dropout .25; linear 128, relu, dropout
// .5; linear to the classes. 1199882 parameters for 1x28x28 and 10 classes. Starts from LibTorch's
// default initialization and accepts any image size that leaves something to flatten.
struct MnistCnn {
  std::optional<double> dropout;  // of both

  [[nodiscard]] std::shared_ptr<Network> make(const ModelOptions& shapes) const {
    return std::make_shared<MnistCnnNetwork>(shapes, dropout);
  }
};

template <typename Field>
void visit(Field& field, MnistCnn& model) {
  field("dropout", model.dropout, fraction,
        Unset{"0.25 of the convolutions' values, 0.5 of the linear layer's"});
}

ModelEntry mnist_cnn() {
  return entry_of<MnistCnn>("mnist_cnn",
                            "two 3x3 convolutions (32, 64), dropout, linear 128; 1.2 million "
                            "parameters on MNIST");
}

}  // namespace kolo::networks
