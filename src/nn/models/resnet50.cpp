#include "nn/models/resnet.h"

namespace kolo::networks {

// The NERSC tutorial's ResNet-50: a 7x7 stem of stride 2 and 3x3 max-pooling; 3, 4, 6 and 3 blocks,
// whose last convolution is four times as wide; a stage's first block has its stride on the first
// 1x1 convolution and a convolution on the shortcut. Biases, momentum and epsilon as in
// resnet_small. 25583592 parameters for 1000 classes.
struct ResNet50 {
  std::optional<double> batch_norm_momentum;  // of all batch norms, in Keras's sense

  [[nodiscard]] std::shared_ptr<Network> make(const ModelOptions& shapes) const {
    return make_resnet({.name = "resnet50",
                        .kind = BlockKind::bottleneck,
                        .blocks = {3, 4, 6, 3},
                        .expansion = 4,
                        .bias = true,
                        .plain_block_norm = tutorial_plain_block_norm,
                        .norm = tutorial_norm},
                       shapes, batch_norm_momentum);
  }
};

template <typename Field>
void visit(Field& field, ResNet50& model) {
  visit_tutorial_momentum(field, model.batch_norm_momentum);
}

ModelEntry resnet50() {
  auto entry = entry_of<ResNet50>("resnet50",
                                  "ResNet-50 as Keras has it; 25.6 million parameters on ImageNet");
  entry.l2 = 5e-5;
  return entry;
}

}  // namespace kolo::networks
