#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/nn/network.h"

namespace kolo {

// What a model is made for and the choices that models share. A choice that a model doesn't have is
// an InputError when it is given (see ModelDescription).
struct ModelOptions {
  std::vector<std::int64_t> input_shape;  // of one sample, without the batch: images are C, H, W
  std::int64_t classes = 0;               // the length of the output; 0 for models of fields
  // Of one output, without the batch, for models that make fields: channels and three lengths.
  std::vector<std::int64_t> output_shape = {};
  // Of every dropout layer, from 0 to below 1; the model's own probabilities when not given.
  std::optional<double> dropout = std::nullopt;
  // Of every batch norm, in Keras's sense, from 0 to below 1: running = momentum running + (1 -
  // momentum) batch, which torch calls a momentum of 1 - momentum. The model's own when not given.
  std::optional<double> batch_norm_momentum = std::nullopt;
  // Of models of fields: how often the size is halved, and the channels after the first time; the
  // model's own when not given.
  std::optional<std::int64_t> levels = std::nullopt;
  std::optional<std::int64_t> channels = std::nullopt;
  // What the model is read from, for models that are.
  std::filesystem::path file = {};
};

// A model under its name in configurations.
struct ModelDescription {
  std::string name;
  std::string description;  // one line
  // Makes it on the CPU in float32, in training mode, with random parameters from torch's default
  // generator: the same ones after the same torch::manual_seed. Gets options that are in range;
  // throws InputError when the model can't work on the input's shape.
  std::function<std::shared_ptr<Network>(const ModelOptions&)> make;
  // The factor of the penalty on squared weights that it is usually trained with (l2_penalty()).
  double l2 = 0;
  // Which of the options it has; a dropout of 0 suits a model without dropout, too.
  bool has_dropout = true;
  bool has_batch_norm = true;
  bool reads_file = false;
  bool makes_fields = false;  // its output is a field, of output_shape, rather than classes
};

// Models by name. An ordinary value: who wants models of their own adds them to a copy of
// built_in_models().
class ModelCatalogue {
 public:
  // Throws Error when the name is taken.
  void add(ModelDescription description);

  [[nodiscard]] std::span<const ModelDescription> entries() const { return entries_; }

  // The model of that name; the InputError for an unknown one suggests the nearest and lists all.
  [[nodiscard]] const ModelDescription& find(const std::string& name) const;

  // Finds the model, checks the options (InputError for those out of range) and makes it.
  [[nodiscard]] std::shared_ptr<Network> make(const std::string& name,
                                              const ModelOptions& options) const;

 private:
  std::vector<ModelDescription> entries_;
};

// mnist_net and mnist_cnn, the MNIST networks of the ALCF tutorial on distributed deep learning;
// cnn, resnet_small and resnet50 as the NERSC tutorial on deep learning at scale has them in Keras;
// resnet34; unet3d, the NERSC tutorial's U-Net for cosmology boxes; torchscript, a scripted PyTorch
// module from a file.
[[nodiscard]] ModelCatalogue built_in_models();

// built_in_models().make(name, options)
[[nodiscard]] std::shared_ptr<Network> make_network(const std::string& name,
                                                    const ModelOptions& options);

}  // namespace kolo
