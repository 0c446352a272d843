#include "nn/models/resnet.h"

namespace kolo::networks {

// ResNet-34 in the paper's layout, as torchvision has it: a 7x7 stem of stride 2 and 3x3
// max-pooling; 3, 4, 6 and 3 blocks of two 3x3 convolutions without biases; the first block of all
// stages but the first halves the image and has a convolution on its shortcut. Momentum .9, epsilon
// 1e-5. 21797672 parameters for 1000 classes.
struct ResNet34 {
  std::optional<double> batch_norm_momentum;  // in Keras's sense

  void complete() { batch_norm_momentum = batch_norm_momentum.value_or(.9); }
  [[nodiscard]] std::shared_ptr<Network> make(const ModelOptions& shapes) const {
    return make_resnet({.name = "resnet34",
                        .kind = BlockKind::basic,
                        .blocks = {3, 4, 6, 3},
                        .plain_block_norm = {.epsilon = 1e-5},
                        .norm = {.epsilon = 1e-5}},
                       shapes, batch_norm_momentum);
  }
};

template <typename Field>
void visit(Field& field, ResNet34& model) {
  field("batch_norm_momentum", model.batch_norm_momentum, fraction);
}

ModelEntry resnet34() {
  return entry_of<ResNet34>("resnet34",
                            "ResNet-34, basic blocks; 21.8 million parameters on ImageNet");
}

}  // namespace kolo::networks
