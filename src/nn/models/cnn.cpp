#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "kolo/nn/weights.h"
#include "kernels/fused.h"
#include "nn/models/model_parts.h"

namespace kolo::networks {

namespace {

class CnnNetwork final : public ChainNetwork {
 public:
  CnnNetwork(const ModelOptions& shapes, double dropout) {
    add("convolution1", channels_of(shapes, "cnn", 8), 16);
    add("convolution2", 16, 32);
    add("convolution3", 32, 64);
    torch::nn::Linear hidden =
        register_module("hidden", dense(flattened(shapes, 64, reduced), 128));
    torch::nn::Dropout drop = register_module("dropout", torch::nn::Dropout(dropout));
    torch::nn::Linear output = register_module("output", dense(128, shapes.classes));
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
