#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/base/network_stage.h"
#include "kolo/kernels/partition.h"
#include "kolo/layout/spatial_network.h"

namespace kolo {

// A torch module with parameters, buffers and modes that takes and gives lists of tensors. As with
// every torch module, one thread at a time may use it.
class TensorsNetwork : public torch::nn::Module {
 public:
  // Records for backward unless gradients are off. InputError for another number of inputs than
  // the network takes.
  [[nodiscard]] virtual std::vector<torch::Tensor> forward(
      std::span<const torch::Tensor> inputs) = 0;
};

// A network of one input and one output.
class Network : public TensorsNetwork {
 public:
  // forward() of the one tensor in the list.
  [[nodiscard]] std::vector<torch::Tensor> forward(std::span<const torch::Tensor> inputs) override;
  // The outputs for a batch: input [N, ...] as the model was made for, result [N, ...]; for a
  // classifier the logits [N, classes]. Records for backward unless gradients are off.
  [[nodiscard]] virtual torch::Tensor forward(const torch::Tensor& input) = 0;

  // Stops training the parameters and modules of these names: parameters want no gradient, and
  // modules compute as in evaluation, so batch norms keep their running statistics. Names are whole
  // ones of named_parameters() or named_modules(). InputError for a name that nothing has, and
  // where no parameter is left to train.
  void freeze(std::span<const std::string> names);
  // Frozen modules stay in evaluation mode.
  void train(bool on = true) override;

  // The layers that rows of several ranks go through, in order, of a network whose samples ranks
  // can share; none: they can't.
  [[nodiscard]] virtual std::vector<FieldLayer> field_layers() const { return {}; }
  // From now on forward() takes and makes this rank's rows of samples. Null: whole ones again.
  // InputError for a network without field_layers().
  virtual void share_samples(std::shared_ptr<const Partition> partition);

  // The network as a chain, for pipelines and recomputation: one after another the stages compute
  // what forward() does, to the bit. They hold the same modules as the network and may outlive it;
  // layers are replaced (SyncBatchNorm) before they are asked for. InputError for networks that are
  // no chain, which is what a network is unless it overrides this.
  [[nodiscard]] virtual std::vector<NetworkStage> stages() const;

 private:
  std::vector<std::string> frozen_;  // modules; by name, as layers may be replaced
};

// Stages whose inner results backward computes again from their inputs, which saves their memory
// for one more forward pass (Chen et al., arXiv:1604.06174).
//
//   const auto stages = recomputed(network->stages());
//   const auto output = run_stages(stages, {input}).front();
//
// Outputs and gradients stay the same to the bit: the second pass draws the same random numbers and
// leaves the generators where they were, leaves buffers alone, and computes under the first one's
// autocast and PlainKernels. Layers whose statistics are taken over ranks communicate once more in
// backward. A stage that changes inputs in place is given copies of them.
//
// Backward is Tensor::backward(): hooks on parameters (GradientReducer) see their gradients, while
// torch::autograd::grad() with respect to parameters does not; no second derivatives. Error in
// backward where an input was changed in place since. One thread at a time may use a stage.
[[nodiscard]] std::vector<NetworkStage> recomputed(std::vector<NetworkStage> stages);

// One operation of a network on one sample.
struct LayerSummary {
  std::string name;  // of the module that the operation's parameters belong to; "" without any
  std::string kind;  // the operation: "conv2d", "linear", "batch_norm", "relu", "max_pool2d", ...
  std::vector<std::int64_t> output_shape;  // without the batch
  std::int64_t input_elements = 0;         // without the batch, parameters and buffers
  std::int64_t parameters = 0;             // elements; those met before count once
  // Floating-point operations a sample: two a multiply-add in convolutions and linear layers (their
  // biases not counted), two a value in normalizations, one a value that a pooling looks at, one an
  // output elsewhere, none for what only moves data.
  std::int64_t flops = 0;
};

struct ModelSummary {
  std::vector<LayerSummary> layers;  // in the order of execution
  // Elements in the whole network, whether met in a layer or not.
  std::int64_t parameters = 0;
  std::int64_t trainable_parameters = 0;
  std::int64_t buffer_elements = 0;
  std::int64_t flops = 0;
};

// Runs one sample of zeros through a network and writes down what it computes: any network, without
// its help, by watching LibTorch's operators. Work that doesn't go through them is shown when its
// author marks it with RECORD_FUNCTION. Evaluation mode is used, and the network's mode, buffers
// and random generators are afterwards as before. The shape is one sample's, without the batch.
[[nodiscard]] ModelSummary summarize(Network& network, std::span<const std::int64_t> input_shape);

// The summary as a table with totals, one line a layer, ending in a line break.
[[nodiscard]] std::string to_text(const ModelSummary& summary);

// A stage of a network on one sample.
struct StageSummary {
  std::string name;
  std::int64_t parameters = 0;  // elements
  std::int64_t flops = 0;       // as LayerSummary counts them
  std::int64_t elements = 0;    // of what goes on to the next stage
};

// Counts what each of a network's stages computes, as summarize() does it: for cutting a chain the
// same way each time. InputError for a network without stages.
[[nodiscard]] std::vector<StageSummary> summarize_stages(Network& network,
                                                         std::span<const std::int64_t> input_shape);

// Names the trainable parameters that take no part in what a network in training mode makes of one
// sample of this shape, and so never get a gradient. Costs a forward pass.
[[nodiscard]] std::vector<std::string> find_unused_parameters(
    Network& network, std::span<const std::int64_t> input_shape);

}  // namespace kolo
