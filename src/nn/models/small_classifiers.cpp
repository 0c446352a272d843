#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>

#include <fmt/format.h>

#include "kernels/fused.h"
#include "kolo/kernels/convolution.h"
#include "kolo/kernels/linear.h"
#include "nn/models/building_blocks.h"

namespace kolo::networks {

namespace {

// Two convolutions and two linear layers. `Drop` is behind the second convolution.
template <typename Drop>
class MnistNetwork final : public ChainNetwork {
 public:
  struct Layout {
    const char* name;
    std::int64_t smallest, kernel, first, second, hidden;  // lengths, channels, values
    bool pools_first;
    double conv2_drop, fc1_drop;
  };

  MnistNetwork(const ModelOptions& shapes, const Layout& layout) {
    const auto channels = channels_of(shapes, layout.name, layout.smallest);
    const auto reduced = [&](std::int64_t length) {
      const auto after_first = length - layout.kernel + 1;
      return ((layout.pools_first ? after_first / 2 : after_first) - layout.kernel + 1) / 2;
    };
    Convolution2d conv1 =
        register_module("conv1", Convolution2d(channels, layout.first, layout.kernel));
    Convolution2d conv2 =
        register_module("conv2", Convolution2d(layout.first, layout.second, layout.kernel));
    Drop conv2_drop = register_module("conv2_drop", Drop(layout.conv2_drop));
    Linear fc1 =
        register_module("fc1", Linear(flattened(shapes, layout.second, reduced), layout.hidden));
    torch::nn::Dropout fc1_drop = register_module("fc1_drop", torch::nn::Dropout(layout.fc1_drop));
    Linear fc2 = register_module("fc2", Linear(layout.hidden, shapes.classes));
    add_stage("conv1", {{"conv1", conv1.ptr()}},
              [conv1, pools = layout.pools_first](const torch::Tensor& x) mutable {
                return pools ? max_pool_relu(conv1(x)) : torch::relu(conv1(x));
              });
    // mnist_net drops channels before the pooling, where there are four times the values: a scale
    // of 0 or more for whole channels commutes with maxima.
    add_stage("conv2", {{"conv2", conv2.ptr()}, {"conv2_drop", conv2_drop.ptr()}},
              [conv2, conv2_drop](const torch::Tensor& x) mutable {
                return conv2_drop(max_pool_relu(conv2(x)));
              });
    add_stage("fc1", {{"fc1", fc1.ptr()}, {"fc1_drop", fc1_drop.ptr()}},
              [fc1, fc1_drop](const torch::Tensor& x) mutable {
                return fc1_drop(torch::relu(fc1(x.flatten(1))));
              });
    add_stage("fc2", {{"fc2", fc2.ptr()}},
              [fc2](const torch::Tensor& x) mutable { return fc2(x); });
  }
};

}  // namespace

// Settings of models whose one setting of their own is dropout.
struct WithDropout {
  std::optional<double> dropout;
};

template <typename Field>
void visit(Field& field, WithDropout& model) {
  field("dropout", model.dropout, fraction);
}

// Conv 10 of 5x5, max-pool 2, relu; conv 20 of 5x5, channel dropout, max-pool 2, relu; linear 50,
// relu, dropout; linear to the classes. 21840 parameters for 1x28x28 and 10 classes. Starts from
// LibTorch's default initialization and accepts any image size that leaves something to flatten.
struct MnistNet : WithDropout {
  void complete() { dropout = dropout.value_or(.5); }
  [[nodiscard]] std::shared_ptr<Network> make(const ModelOptions& shapes) const {
    using MnistNetwork = MnistNetwork<torch::nn::Dropout2d>;
    return std::make_shared<MnistNetwork>(
        shapes, MnistNetwork::Layout{"mnist_net", 16, 5, 10, 20, 50, true, *dropout, *dropout});
  }
};

ModelEntry mnist_net() {
  return entry_of<MnistNet>("mnist_net",
                            "two 5x5 convolutions (10, 20), channel dropout, linear 50; 22 "
                            "thousand parameters on MNIST");
}

// Conv 32 of 3x3, relu; conv 64 of 3x3, relu, max-pool 2, dropout .25; linear 128, relu, dropout
// .5; linear to the classes. 1199882 parameters for 1x28x28 and 10 classes. Starts from LibTorch's
// default initialization and accepts any image size that leaves something to flatten.
struct MnistCnn {
  std::optional<double> dropout;  // of both

  [[nodiscard]] std::shared_ptr<Network> make(const ModelOptions& shapes) const {
    using MnistNetwork = MnistNetwork<torch::nn::Dropout>;
    return std::make_shared<MnistNetwork>(
        shapes, MnistNetwork::Layout{"mnist_cnn", 6, 3, 32, 64, 128, false, dropout.value_or(.25),
                                     dropout.value_or(.5)});
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

namespace {

class CnnNetwork final : public ChainNetwork {
 public:
  CnnNetwork(const ModelOptions& shapes, double dropout) {
    add("convolution1", channels_of(shapes, "cnn", 8), 16);
    add("convolution2", 16, 32);
    add("convolution3", 32, 64);
    Linear hidden = register_module("hidden", dense(flattened(shapes, 64, reduced), 128));
    torch::nn::Dropout drop = register_module("dropout", torch::nn::Dropout(dropout));
    Linear output = register_module("output", dense(128, shapes.classes));
    add_stage("hidden", {{"hidden", hidden.ptr()}, {"dropout", drop.ptr()}},
              [hidden, drop](const torch::Tensor& x) mutable {
                return drop(hidden(x.flatten(1)).relu_());
              });
    add_stage("output", {{"output", output.ptr()}},
              [output](const torch::Tensor& x) mutable { return output(x); });
  }

 private:
  void add(const char* name, std::int64_t inputs, std::int64_t outputs) {
    auto convolution = padded_convolution({inputs, outputs, 3});
    glorot_uniform(convolution->weight);
    register_module(name, convolution);
    add_stage(name, {{name, convolution.ptr()}}, [convolution](const torch::Tensor& x) mutable {
      return max_pool_relu(convolution(x));
    });
  }

  static std::int64_t reduced(std::int64_t length) { return length / 8; }
};

}  // namespace

// The small classifier of the NERSC tutorial (models/cnn.py): three times a 3x3 convolution (16,
// 32, 64), relu and 2x2 max-pooling; dense 128, relu, dropout, dense. Weights are glorot_uniform
// and biases zero, as is Keras's default. 156074 parameters for 3x32x32 and 10 classes. Images of
// at least 8x8.
struct Cnn : WithDropout {
  void complete() { dropout = dropout.value_or(0); }
  [[nodiscard]] std::shared_ptr<Network> make(const ModelOptions& shapes) const {
    return std::make_shared<CnnNetwork>(shapes, dropout.value());
  }
};

ModelEntry cnn() {
  return entry_of<Cnn>("cnn",
                       "three 3x3 convolutions (16, 32, 64) with pooling, linear 128; 156 thousand "
                       "parameters on CIFAR-10");
}

namespace {

class SmallCnnNetwork final : public ChainNetwork {
 public:
  SmallCnnNetwork(const ModelOptions& shapes, double momentum) {
    std::int64_t inputs = channels_of(shapes, "small_cnn", 8), number = 0;
    for (const std::int64_t width : {16, 32, 64, 128}) {
      const auto convolution = padded_convolution({inputs, width, 3, 1, false});
      he_normal(convolution->weight);
      torch::nn::Sequential block;
      block->push_back("convolution", convolution);
      block->push_back("norm", batch_norm(width, {momentum, 1e-5}));
      const auto name = fmt::format("block{}", ++number);
      register_module(name, block);
      add_stage(name, {{name, block.ptr()}}, [block, number](torch::Tensor x) mutable {
        return forward_fused(block, number == 1 ? std::move(x) : max_pool_relu(x));
      });
      inputs = width;
    }
    Linear output = register_module("output", dense(inputs, shapes.classes));
    add_stage("output", {{"output", output.ptr()}}, [output](const torch::Tensor& x) mutable {
      return output(torch::relu(x.amax({2, 3})));
    });
  }
};

}  // namespace

// Four 3x3 convolutions without biases (16, 32, 64, 128), each with batch norm and relu; 2x2
// max-pooling between them; the largest value of each channel, wherever it stands in the image;
// linear. For few images of any size, whose things may lie anywhere in them. Convolutions start
// from he_normal. 98970 parameters for 3 channels and 10 classes. The momentum of .7 lets running
// statistics settle within the ten steps that an epoch of so few images has.
struct SmallCnn {
  std::optional<double> batch_norm_momentum;  // in Keras's sense

  void complete() { batch_norm_momentum = batch_norm_momentum.value_or(.7); }
  [[nodiscard]] std::shared_ptr<Network> make(const ModelOptions& shapes) const {
    return std::make_shared<SmallCnnNetwork>(shapes, batch_norm_momentum.value());
  }
};

template <typename Field>
void visit(Field& field, SmallCnn& model) {
  field("batch_norm_momentum", model.batch_norm_momentum, fraction);
}

ModelEntry small_cnn() {
  return entry_of<SmallCnn>("small_cnn",
                            "four 3x3 convolutions (16 to 128) with batch norm and pooling, for "
                            "few images of any size; 99 thousand parameters");
}

}  // namespace kolo::networks
