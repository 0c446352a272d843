#include "kolo/nn/models.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/kernels/convolution.h"
#include "settings/choice_reader.h"
#include "settings/value.h"

namespace kolo {

namespace {

// Choices that models share, as settings: of a program's own model those that it has.
struct SharedChoices {
  bool has_dropout = true, has_batch_norm = true, makes_fields = true;
  ModelOptions options = {};
};

template <typename Field>
void visit(Field& field, SharedChoices& model) {
  constexpr long double most_levels = 64;
  const Unset own{"the model's own"};
  auto& options = model.options;
  if (model.has_dropout) field("dropout", options.dropout, fraction, own);
  if (model.has_batch_norm)
    field("batch_norm_momentum", options.batch_norm_momentum, fraction, own);
  if (!model.makes_fields) return;
  field("levels", options.levels, positive.up_to(most_levels), own);
  field("channels", options.channels, positive.up_to(most_cells), own);
}

ModelEntry entry_of(ModelDescription description) {
  ModelEntry entry{{std::move(description.name), std::move(description.description)}};
  set_settings(entry, SharedChoices{description.has_dropout, description.has_batch_norm,
                                    description.makes_fields});
  entry.make = [make = std::move(description.make)](const OwnSettings& own,
                                                    const ModelOptions& shapes) {
    auto options = own.as<SharedChoices>().options;
    options.input_shape = shapes.input_shape;
    options.classes = shapes.classes;
    options.output_shape = shapes.output_shape;
    options.input_shapes = shapes.input_shapes;
    options.output_shapes = shapes.output_shapes;
    return make(options);
  };
  entry.l2 = description.l2;
  if (description.makes_fields) entry.output = ModelOutput::numbers;
  return entry;
}

[[noreturn]] void refuse_model(const ModelEntry& model, std::string_view what) {
  throw InputError(fmt::format("model {}: {}", model.name, what));
}

bool has_positive_lengths(const std::vector<std::int64_t>& shape) {
  return std::ranges::all_of(shape, [](std::int64_t length) { return length > 0; });
}

void check_output(const ModelEntry& model, const ModelOptions& options) {
  const auto& shape = options.output_shape;
  const bool is_numbers = !shape.empty();
  if (is_numbers && model.output == ModelOutput::classes) {
    refuse_model(model,
                 "tells classes apart, but the data's targets are numbers; use mlp, torchscript, "
                 "or for fields unet3d");
  }
  if (!is_numbers && model.output == ModelOutput::numbers)
    refuse_model(model, "makes fields, but the data has classes; use a classifier");
  if (!has_positive_lengths(shape)) {
    refuse_model(model, fmt::format("the output's shape is {}, expected lengths above 0", shape));
  }
  if (!is_numbers && options.classes < 1)
    refuse_model(model, fmt::format("{} classes, expected 1 or more", options.classes));
}

// Parts must make up the whole, which is a vector.
void check_arrays(const ModelEntry& model, std::string_view what,
                  const std::vector<std::vector<std::int64_t>>& parts,
                  const std::vector<std::int64_t>& whole) {
  if (parts.empty()) return;
  std::int64_t values = 0;
  for (const auto& part : parts)
    values = checked_add(values, checked_product(std::span<const std::int64_t>(part)));
  if (whole == std::vector{values} && std::ranges::all_of(parts, has_positive_lengths)) return;
  refuse_model(model, fmt::format("the {}'s parts are {}, but its shape is {}, expected their "
                                  "number of values",
                                  what, parts, whole));
}

void check_shapes(const ModelEntry& model, const ModelOptions& options) {
  const auto& shape = options.input_shape;
  if (shape.empty() || !has_positive_lengths(shape)) {
    refuse_model(
        model,
        fmt::format("the input's shape is {}, expected one or more lengths, each above 0", shape));
  }
  check_output(model, options);
  check_arrays(model, "input", options.input_shapes, shape);
  check_arrays(model, "output", options.output_shapes, options.output_shape);
}

// Given options as the keys that a configuration would have.
ConfigValue mapping_of(const ModelOptions& options, const std::string& origin) {
  SharedChoices choices{.options = options};
  auto mapping = TreeWriter::tree_of_section(choices);
  std::erase_if(mapping.entries, [](const ConfigEntry& entry) {
    return entry.value.kind == ConfigValue::Kind::nothing;
  });
  for (auto& entry : mapping.entries) entry.value.origin = origin;
  return mapping;
}

// Refuses choices that the model doesn't have.
OwnSettings own_settings(const ModelEntry& model, const ModelOptions& options) {
  const auto origin = fmt::format("model {}", model.name);
  const auto mapping = mapping_of(options, origin);
  const auto known = keys_of(model);
  for (const auto& [key, value] : mapping.entries) {
    const bool is_known = std::ranges::count(known, key) > 0;
    if (is_known || (key == "dropout" && options.dropout == 0)) continue;
    throw InputError(fmt::format("{}: {} is {}, but the model has {}", origin, key, value.text,
                                 known.empty() ? "no such choices" : "only " + join(known)));
  }
  auto own = model.defaults;
  const KnownSettings none;
  SectionReader reader(mapping, "", none);
  own.holder().read(reader);
  return own;
}

// Settings that are checked, with defaults for those left open.
OwnSettings checked(const ModelEntry& entry, OwnSettings own) {
  if (!own.has_value()) own = entry.defaults;
  entry.check(own, [&](std::string_view key, std::string_view reason) {
    refuse_model(entry, fmt::format("{}: {}", key, reason));
  });
  entry.complete(own);
  return own;
}

}  // namespace

void ModelCatalogue::add(ModelDescription description) {
  add_entry(entry_of(std::move(description)));
}

void ModelCatalogue::add_entry(ModelEntry entry) {
  if (std::ranges::find(entries_, entry.name, &ModelEntry::name) != entries_.end()) {
    throw Error(
        fmt::format("models: there is a model \"{}\" already, choose another name", entry.name));
  }
  entries_.push_back(std::move(entry));
}

const ModelEntry& ModelCatalogue::find(const std::string& name) const {
  return entry_named(entries_, name, "models: unknown model");
}

std::shared_ptr<Network> ModelCatalogue::make(const std::string& name,
                                              const ModelOptions& options) const {
  return make(name, own_settings(find(name), options), options);
}

std::shared_ptr<Network> ModelCatalogue::make(const std::string& name, OwnSettings own,
                                              const ModelOptions& options) const {
  const ModelEntry& entry = find(name);
  check_shapes(entry, options);
  auto network = entry.make(checked(entry, std::move(own)), options);
  keep_taps_first(*network);
  return network;
}

std::shared_ptr<TensorsNetwork> ModelCatalogue::make_tensors(const std::string& name,
                                                             OwnSettings own,
                                                             const ModelOptions& options) const {
  const ModelEntry& entry = find(name);
  if (!entry.make_tensors) return make(name, std::move(own), options);
  return entry.make_tensors(checked(entry, std::move(own)), options);
}

ModelCatalogue built_in_models() {
  ModelCatalogue catalogue;
  for (const auto& entry : built_in_model_entries()) catalogue.add_entry(entry);
  return catalogue;
}

std::shared_ptr<Network> make_network(const std::string& name, const ModelOptions& options) {
  return built_in_models().make(name, options);
}

}  // namespace kolo
