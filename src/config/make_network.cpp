#include "kolo/config/factories.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/settle.h"
#include "kolo/base/generators.h"
#include "kolo/base/random.h"
#include "kolo/nn/loss.h"
#include "kolo/nn/models.h"
#include "kolo/optim/catalogue.h"
#include "kolo/train/objective.h"

namespace kolo {

namespace {

// Streams of one seed.
constexpr std::uint32_t weights_stream = 0xFFFFFFFF;  // the trainer uses the ranks' numbers

// A binary loss takes one output for two classes.
std::int64_t outputs_of(const RunConfig& config, const SampleLayout& layout) {
  const auto& given = config.model.n_classes;
  if (layout.classes == 0) return 0;
  if (loss_entry(config.training.loss).is_binary) {
    if (layout.classes > 2) {
      refuse_setting(config, "training.loss",
                     fmt::format("{} tells two classes apart, but the data has {}; use "
                                 "cross_entropy",
                                 config.training.loss, layout.classes));
    }
    return given.value_or(1);
  }
  if (given && *given < layout.classes) {
    refuse_setting(config, "model.n_classes",
                   fmt::format("{}, but the data has {} classes; leave it out to take the data's",
                               *given, layout.classes));
  }
  const auto outputs = given.value_or(layout.classes);
  if (outputs == 1) {
    refuse_setting(
        config, given ? "model.n_classes" : "training.loss",
        fmt::format("{} of one output is 0 whatever the network puts out{}; it takes two "
                    "classes or more (binary_crossentropy tells two apart by one output)",
                    config.training.loss,
                    layout.classes == 1 ? ", and all labels of the data are 0" : ""));
  }
  return outputs;
}

// "l1 or mse"
std::string losses_for(bool has_classes) {
  std::vector<std::string> names;
  for (const auto& entry : built_in_losses())
    if (entry.has_classes == has_classes) names.push_back(entry.name);
  return fmt::format("{}", fmt::join(names, " or "));
}

void require_loss_of(const RunConfig& config, const SampleLayout& layout) {
  const auto& loss = loss_entry(config.training.loss);
  const bool has_classes = layout.classes > 0;
  if (loss.has_classes == has_classes) return;
  refuse_setting(
      config, "training.loss",
      fmt::format("{}, but the targets of the data {} are {}; use {}", loss.name, config.data.name,
                  has_classes ? "classes" : "numbers", losses_for(has_classes)));
}

// A penalty l2 * sum of w^2 has the gradient 2 * l2 * w, which is a weight decay of 2 * l2: the
// same steps, without a pass over the weights for the loss.
WeightDecay decay_of(const RunConfig& config, double l2) {
  if (l2 > 0) return {2 * l2, config.model.l2_mode == L2Mode::decoupled, true};
  return decay_of(config.optimizer);
}

}  // namespace

std::shared_ptr<Network> make_network(const RunConfig& config, const SampleLayout& layout,
                                      const ModelCatalogue& models) {
  const auto& model = config.model;
  if (!model.input_shape.empty() && model.input_shape != layout.input_shape) {
    refuse_setting(
        config, "model.input_shape",
        fmt::format("[{}], but the data has samples of [{}]; leave it out to take the "
                    "data's",
                    fmt::join(model.input_shape, ", "), fmt::join(layout.input_shape, ", ")));
  }
  require_loss_of(config, layout);
  const auto classes = outputs_of(config, layout);
  const DrawAlone turn;
  torch::manual_seed(derive_seed(config.seed, weights_stream, 0));
  auto network = at_setting(config, "model.name", [&] {
    return models.make(model.name, model.own,
                       {.input_shape = layout.input_shape,
                        .classes = classes,
                        .output_shape = layout.target_shape,
                        .input_parts = layout.input_parts,
                        .output_parts = layout.target_parts});
  });
  if (!model.freeze.empty())
    at_setting(config, "model.freeze", [&] { network->freeze(model.freeze); });
  return network;
}

Objective make_objective(const RunConfig& config) {
  const auto& training = config.training;
  const auto& loss = loss_entry(training.loss);
  const auto own = loss.completed(training.loss_own);
  Objective objective{loss.make(own), loss.make_for_validation(own)};
  objective.precision = training.precision;
  objective.device_norm = config.device.fused_norm;
  objective.counts_correct = loss.has_classes;
  objective.views = training.validation_views;
  const auto& metrics = training.metrics;
  if (std::ranges::find(metrics, Metric::top_k_categorical_accuracy) != metrics.end())
    objective.top = 5;  // Keras's k
  return objective;
}

std::unique_ptr<FlatOptimizer> make_optimizer(const RunConfig& config,
                                              const ModelCatalogue& models) {
  return make_optimizer(config.optimizer, decay_of(config, l2_of(config, models)));
}

}  // namespace kolo
