#include "kolo/nn/models.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/suggest.h"
#include "nn/mnist.h"

namespace kolo {

namespace {

void check_options(const std::string& name, const ModelOptions& options) {
  const auto& shape = options.input_shape;
  const auto positive = [](std::int64_t length) { return length > 0; };
  if (shape.empty() || !std::all_of(shape.begin(), shape.end(), positive)) {
    throw InputError(fmt::format(
        "model {}: the input's shape is [{}], expected one or more lengths, each above 0", name,
        fmt::join(shape.begin(), shape.end(), ", ")));
  }
  if (options.classes < 1) {
    throw InputError(
        fmt::format("model {}: {} classes, expected 1 or more", name, options.classes));
  }
  if (options.dropout && !(*options.dropout >= 0 && *options.dropout < 1)) {
    throw InputError(fmt::format("model {}: dropout is {}, expected a number from 0 to below 1",
                                 name, *options.dropout));
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
  check_options(name, options);
  return description.make(options);
}

ModelCatalogue built_in_models() {
  ModelCatalogue catalogue;
  catalogue.add({"mnist_net",
                 "two 5x5 convolutions (10, 20), channel dropout, linear 50; 22 thousand "
                 "parameters on MNIST",
                 make_mnist_net});
  catalogue.add({"mnist_cnn",
                 "two 3x3 convolutions (32, 64), dropout, linear 128; 1.2 million parameters on "
                 "MNIST",
                 make_mnist_cnn});
  return catalogue;
}

std::shared_ptr<Network> make_network(const std::string& name, const ModelOptions& options) {
  return built_in_models().make(name, options);
}

}  // namespace kolo
