#include "nn/models/mnist.h"

#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "kolo/base/checked.h"
#include "kolo/nn/convolution.h"
#include "nn/kernels/max_pool_relu.h"
#include "nn/models/image_input.h"

namespace kolo {

namespace {

// The elements left for the linear layers: `channels` of the input's size after `reduce`, which
// maps a height or width.
template <typename Reduce>
std::int64_t flattened(const ModelOptions& options, std::int64_t channels, Reduce reduce) {
  return checked_multiply(
      channels, checked_multiply(reduce(options.input_shape[1]), reduce(options.input_shape[2])));
}

class MnistNet final : public Network {
 public:
  explicit MnistNet(const ModelOptions& options)
      : conv1_(
            register_module("conv1", Convolution2d(channels_of(options, "mnist_net", 16), 10, 5))),
        conv2_(register_module("conv2", Convolution2d(10, 20, 5))),
        conv2_drop_(
            register_module("conv2_drop", torch::nn::Dropout2d(options.dropout.value_or(0.5)))),
        fc1_(register_module("fc1", torch::nn::Linear(flattened(options, 20, reduced), 50))),
        fc1_drop_(register_module("fc1_drop", torch::nn::Dropout(options.dropout.value_or(0.5)))),
        fc2_(register_module("fc2", torch::nn::Linear(50, options.classes))) {}

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

class MnistCnn final : public Network {
 public:
  explicit MnistCnn(const ModelOptions& options)
      : conv1_(
            register_module("conv1", Convolution2d(channels_of(options, "mnist_cnn", 6), 32, 3))),
        conv2_(register_module("conv2", Convolution2d(32, 64, 3))),
        conv2_drop_(
            register_module("conv2_drop", torch::nn::Dropout(options.dropout.value_or(0.25)))),
        fc1_(register_module("fc1", torch::nn::Linear(flattened(options, 64, reduced), 128))),
        fc1_drop_(register_module("fc1_drop", torch::nn::Dropout(options.dropout.value_or(0.5)))),
        fc2_(register_module("fc2", torch::nn::Linear(128, options.classes))) {}

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

std::shared_ptr<Network> make_mnist_net(const ModelOptions& options) {
  return std::make_shared<MnistNet>(options);
}

std::shared_ptr<Network> make_mnist_cnn(const ModelOptions& options) {
  return std::make_shared<MnistCnn>(options);
}

}  // namespace kolo
