#include "kolo/nn/models.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/suggest.h"
#include "kolo/nn/torchscript.h"
#include "nn/models/cnn.h"
#include "nn/models/mnist.h"
#include "nn/models/resnet.h"
#include "nn/models/unet3d.h"

namespace kolo {

namespace {

void check_fraction(const std::string& model, const char* option, std::optional<double> value) {
  if (value && !(*value >= 0 && *value < 1)) {
    throw InputError(fmt::format("model {}: {} is {}, expected a number from 0 to below 1", model,
                                 option, *value));
  }
}

void check_ranges(const std::string& name, const ModelOptions& options) {
  const auto& shape = options.input_shape;
  const auto positive = [](std::int64_t length) { return length > 0; };
  if (shape.empty() || !std::all_of(shape.begin(), shape.end(), positive)) {
    throw InputError(fmt::format(
        "model {}: the input's shape is [{}], expected one or more lengths, each above 0", name,
        fmt::join(shape.begin(), shape.end(), ", ")));
  }
  check_fraction(name, "dropout", options.dropout);
  check_fraction(name, "the batch norms' momentum", options.batch_norm_momentum);
}

// A choice that a model doesn't have would be made in vain.
void check_choices(const ModelDescription& model, const ModelOptions& options) {
  if (!model.has_dropout && options.dropout.value_or(0) > 0) {
    throw InputError(fmt::format("model {}: dropout is {}, but the model has no dropout layers",
                                 model.name, *options.dropout));
  }
  if (!model.has_batch_norm && options.batch_norm_momentum) {
    throw InputError(fmt::format(
        "model {}: the batch norms' momentum is {}, but it can't be set: either the model has no "
        "batch norms or it brings its own",
        model.name, *options.batch_norm_momentum));
  }
  if (model.makes_fields != !options.output_shape.empty()) {
    throw InputError(fmt::format("model {}: {}", model.name,
                                 model.makes_fields
                                     ? "makes fields, but the data has classes; use a classifier"
                                     : "tells classes apart, but the data's targets are fields; "
                                       "use unet3d"));
  }
  if (!model.makes_fields && options.classes < 1) {
    throw InputError(
        fmt::format("model {}: {} classes, expected 1 or more", model.name, options.classes));
  }
  if (!model.makes_fields && (options.levels || options.channels))
    throw InputError(fmt::format("model {}: has no choice of levels and channels", model.name));
  if (model.reads_file == options.file.empty()) {
    throw InputError(fmt::format("model {}: {}", model.name,
                                 model.reads_file ? "is read from a file; name it"
                                                  : "is not read from a file, but one is named"));
  }
}

}  // namespace

void ModelCatalogue::add(ModelDescription description) {
  for (const auto& entry : entries_) {
    if (entry.name == description.name) {
      throw Error(fmt::format("models: there is a model \"{}\" already, choose another name",
                              description.name));
    }
  }
  entries_.push_back(std::move(description));
}

const ModelDescription& ModelCatalogue::find(const std::string& name) const {
  std::vector<std::string> known;
  for (const auto& entry : entries_) {
    if (entry.name == name) return entry;
    known.push_back(entry.name);
  }
  const std::string suggestion = nearest(name, known);
  const std::string hint =
      suggestion.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", suggestion);
  throw InputError(
      fmt::format("models: unknown model \"{}\"{}, known are {}", name, hint, join(known)));
}

std::shared_ptr<Network> ModelCatalogue::make(const std::string& name,
                                              const ModelOptions& options) const {
  const ModelDescription& description = find(name);
  check_ranges(name, options);
  check_choices(description, options);
  return description.make(options);
}

ModelCatalogue built_in_models() {
  ModelCatalogue catalogue;
  catalogue.add({.name = "mnist_net",
                 .description = "two 5x5 convolutions (10, 20), channel dropout, linear 50; 22 "
                                "thousand parameters on MNIST",
                 .make = make_mnist_net,
                 .has_batch_norm = false});
  catalogue.add({.name = "mnist_cnn",
                 .description = "two 3x3 convolutions (32, 64), dropout, linear 128; 1.2 million "
                                "parameters on MNIST",
                 .make = make_mnist_cnn,
                 .has_batch_norm = false});
  catalogue.add({.name = "cnn",
                 .description = "three 3x3 convolutions (16, 32, 64) with pooling, linear 128; 156 "
                                "thousand parameters on CIFAR-10",
                 .make = make_cnn,
                 .has_batch_norm = false});
  catalogue.add({.name = "resnet_small",
                 .description = "residual network of 26 layers for small images; 7.7 million "
                                "parameters on CIFAR-10",
                 .make = make_resnet_small,
                 .l2 = 5e-5,
                 .has_dropout = false});
  catalogue.add({.name = "resnet34",
                 .description = "ResNet-34, basic blocks; 21.8 million parameters on ImageNet",
                 .make = make_resnet34,
                 .has_dropout = false});
  catalogue.add({.name = "resnet50",
                 .description = "ResNet-50 as Keras has it; 25.6 million parameters on ImageNet",
                 .make = make_resnet50,
                 .l2 = 5e-5,
                 .has_dropout = false});
  catalogue.add({.name = "unet3d",
                 .description = "3-D U-Net of 6 levels, 64 to 512 channels; 117.0 million "
                                "parameters on cosmology boxes",
                 .make = make_unet3d,
                 .has_dropout = false,
                 .has_batch_norm = false,
                 .makes_fields = true});
  catalogue.add({.name = "torchscript",
                 .description = "a scripted PyTorch classifier from a file",
                 .make = [](const ModelOptions& options) -> std::shared_ptr<Network> {
                   return make_torchscript_network(options.file, options);
                 },
                 .has_dropout = false,
                 .has_batch_norm = false,
                 .reads_file = true});
  return catalogue;
}

std::shared_ptr<Network> make_network(const std::string& name, const ModelOptions& options) {
  return built_in_models().make(name, options);
}

}  // namespace kolo
