#include "nn/models/resnet.h"

namespace kolo::networks {

// The NERSC tutorial's small network of 26 layers for small images (models/resnet.py, ResNetSmall):
// a 3x3 stem without pooling; in each stage, of width 64, 128, 256 and 512, one block with a
// convolution on its shortcut, which halves the image, and one without; blocks of 1x1, 3x3 and 1x1
// convolutions, all of the stage's width, with biases. As there, the batch norms of blocks without
// a convolution on the shortcut have momentum .9 and epsilon 1e-5, all others Keras's defaults of
// .99 and 1e-3.
struct ResNetSmall {
  std::optional<double> batch_norm_momentum;  // of all batch norms, in Keras's sense

  [[nodiscard]] std::shared_ptr<Network> make(const ModelOptions& shapes) const {
    return make_resnet({.name = "resnet_small",
                        .kind = BlockKind::bottleneck,
                        .blocks = {2, 2, 2, 2},
                        .expansion = 1,
                        .first_stride = 2,
                        .large_stem = false,
                        .bias = true,
                        .plain_block_norm = tutorial_plain_block_norm,
                        .norm = tutorial_norm},
                       shapes, batch_norm_momentum);
  }
};

template <typename Field>
void visit(Field& field, ResNetSmall& model) {
  visit_tutorial_momentum(field, model.batch_norm_momentum);
}

ModelEntry resnet_small() {
  auto entry = entry_of<ResNetSmall>(
      "resnet_small",
      "residual network of 26 layers for small images; 7.7 million parameters on CIFAR-10");
  entry.l2 = 5e-5;
  return entry;
}

}  // namespace kolo::networks
