#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/settings/choice.h"

// Models by name, without LibTorch's headers.
namespace kolo {

class Network;
class TensorsNetwork;

// Shapes that a model is made for, and choices that models share. A choice that a model doesn't
// have is an InputError when it is given, but for a dropout of 0.
struct ModelOptions {
  std::vector<std::int64_t> input_shape;  // of one sample, without the batch: images are C, H, W
  std::int64_t classes = 0;               // the length of the output; 0 where it is numbers
  // Shape of one output, without the batch, if it is numbers: a vector's length, or the channels
  // and lengths of a field.
  std::vector<std::int64_t> output_shape = {};
  // Shapes of the arrays of an input, or of an output of numbers, that is several arrays, whose
  // values come one after another (SampleLayout::input_shapes). A TorchScript module has a tensor
  // for each; for other models the whole is a vector.
  std::vector<std::vector<std::int64_t>> input_shapes = {}, output_shapes = {};
  // Probability of every dropout layer, from 0 to below 1; the model's own when not given.
  std::optional<double> dropout = std::nullopt;
  // Momentum of every batch norm, in Keras's sense, from 0 to below 1: running = momentum running +
  // (1 - momentum) batch, which torch calls a momentum of 1 - momentum. The model's own when not
  // given.
  std::optional<double> batch_norm_momentum = std::nullopt;
  // Levels of a model of fields (how often the size is halved), and the channels after the first;
  // the model's own when not given.
  std::optional<std::int64_t> levels = std::nullopt;
  std::optional<std::int64_t> channels = std::nullopt;
};

// Kinds of a model's output.
enum class ModelOutput : std::uint8_t {
  classes,  // [N, classes]
  numbers,  // [N, output_shape...]
  either    // as it is asked for
};

// A model under its name in configurations, with its keys there; those of kolo are
// src/nn/models/*.cpp.
struct ModelEntry : ChoiceEntry {
  // Makes it from its own settings, which are complete and checked: on the CPU in float32, in
  // training mode, with random parameters from torch's default generator, the same ones after the
  // same torch::manual_seed. Of the options only the shapes count. InputError when the model can't
  // work on them.
  std::function<std::shared_ptr<Network>(const OwnSettings&, const ModelOptions&)> make = {};
  // Makes it as a network of any number of tensors; empty: it has one input and one output.
  std::function<std::shared_ptr<TensorsNetwork>(const OwnSettings&, const ModelOptions&)>
      make_tensors = {};
  // Factor of the penalty on squared weights that it is usually trained with.
  double l2 = 0;
  ModelOutput output = ModelOutput::classes;
  // A TorchScript module: its batch norms can't be replaced by SyncBatchNorm, parameters that its
  // forward() leaves out are not trained, and a run saves it as one.
  bool is_script = false;
};

// A model of a program's own, whose keys are those of the options that it has.
struct ModelDescription {
  std::string name;
  std::string description;  // one line
  // Makes the network; called with checked options.
  std::function<std::shared_ptr<Network>(const ModelOptions&)> make;
  double l2 = 0;  // as in ModelEntry
  // Options that it has.
  bool has_dropout = true;
  bool has_batch_norm = true;
  bool makes_fields = false;  // its output is a field; has levels and channels
};

// Models by name, a value: programs add models of their own to a copy of built_in_models().
class ModelCatalogue {
 public:
  // Throws Error when the name is taken.
  void add(ModelDescription description);
  void add_entry(ModelEntry entry);

  [[nodiscard]] std::span<const ModelEntry> entries() const { return entries_; }

  // The model of that name; the InputError for an unknown one suggests the nearest and lists all.
  [[nodiscard]] const ModelEntry& find(const std::string& name) const;

  // Finds the model, checks the options (InputError for those out of range) and makes it.
  [[nodiscard]] std::shared_ptr<Network> make(const std::string& name,
                                              const ModelOptions& options) const;
  // The same with the model's own settings, as a configuration has them (none: their defaults);
  // of the options only the shapes count.
  [[nodiscard]] std::shared_ptr<Network> make(const std::string& name, OwnSettings own,
                                              const ModelOptions& options) const;
  // Makes it as a network of any number of tensors. Shapes may be left out where the model needs
  // none.
  [[nodiscard]] std::shared_ptr<TensorsNetwork> make_tensors(const std::string& name,
                                                             OwnSettings own,
                                                             const ModelOptions& options) const;

 private:
  std::vector<ModelEntry> entries_;
};

// mnist_net and mnist_cnn, the MNIST networks of the ALCF tutorial on distributed deep learning;
// cnn, resnet_small and resnet50 as the NERSC tutorial on deep learning at scale has them in Keras;
// small_cnn, for few images; resnet34; unet3d, the NERSC tutorial's U-Net for cosmology boxes; mlp,
// a multilayer perceptron (kolo/nn/models.h); torchscript, a scripted PyTorch module from a file.
[[nodiscard]] ModelCatalogue built_in_models();
[[nodiscard]] const std::vector<ModelEntry>& built_in_model_entries();

}  // namespace kolo
