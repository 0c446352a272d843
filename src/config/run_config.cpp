#include "kolo/config/run_config.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "config/override.h"
#include "config/schema.h"
#include "config/section.h"
#include "config/writer.h"
#include "config/yaml_reader.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/suggest.h"
#include "kolo/data/mnist.h"

namespace kolo {

namespace {

bool is_known_key(const std::string& key) {
  const auto known = known_keys<RunConfig>();
  return std::find(known.begin(), known.end(), key) != known.end();
}

bool has_known_key(const ConfigValue& mapping) {
  return std::any_of(mapping.entries.begin(), mapping.entries.end(),
                     [](const ConfigEntry& entry) { return is_known_key(entry.key); });
}

// The named configurations of a file: mappings at its top level that hold what a configuration
// holds, which neither a misspelt section nor a template for one does.
std::vector<std::string> names_in(const ConfigValue& root) {
  std::vector<std::string> names;
  for (const ConfigEntry& entry : root.entries) {
    if (!is_known_key(entry.key) && has_known_key(entry.value)) names.push_back(entry.key);
  }
  return names;
}

ConfigValue choose_named(ConfigValue root, const std::string& file, const std::string& name) {
  ConfigValue* chosen = is_known_key(name) ? nullptr : root.find(name);
  if (chosen != nullptr && chosen->kind == ConfigValue::Kind::mapping) return std::move(*chosen);
  const auto names = names_in(root);
  if (names.empty()) {
    throw InputError(fmt::format(
        "{}: the file holds a single configuration, none of the name {}; leave --config out", file,
        quote(name)));
  }
  const std::string near = suggestion(name, names);
  throw InputError(fmt::format("{}: no configuration of the name {}{} The file has: {}", file,
                               quote(name), near.empty() ? "." : near, join(names)));
}

ConfigValue choose(ConfigValue root, const ConfigSource& source) {
  if (source.name) return choose_named(std::move(root), source.file.string(), *source.name);
  const auto names = names_in(root);
  if (!names.empty() && !has_known_key(root)) {
    throw InputError(
        fmt::format("{}: the file holds several configurations; choose one with --config NAME: {}",
                    source.file.string(), join(names)));
  }
  return root;
}

std::string default_output_dir(const ConfigSource& source) {
  const std::string stem = source.file.stem().string();
  return source.name ? fmt::format("results/{}-{}", stem, *source.name)
                     : fmt::format("results/{}", stem);
}

// What depends on more than one key.
class Checks {
 public:
  explicit Checks(const ConfigValue& root) : root_(root) {}

  void run(const RunConfig& config) const {
    check_data(config.data);
    check_shape("model.input_shape", config.model.input_shape);
    check_optimizer(config.optimizer);
    if (config.training.lr_warmup_epochs > 0 && config.training.lr_warmup_steps > 0) {
      fail("training.lr_warmup_steps",
           "give the warm-up in epochs (lr_warmup_epochs) or in steps, not both");
    }
    const CheckpointConfig& checkpoint = config.checkpoint;
    if (checkpoint.enabled && checkpoint.every_epochs == 0 && checkpoint.every_steps == 0) {
      fail("checkpoint.every_epochs",
           "every_epochs and every_steps are both 0, so no checkpoint would be written; "
           "set one, or enabled: false");
    }
  }

 private:
  [[noreturn]] void fail(std::string_view key, std::string_view reason) const {
    throw InputError(fmt::format("{}: {}: {}", place_of(root_, key), key, reason));
  }

  void check_data(const DataConfig& data) const {
    if (data.name == "mnist" && data.path.empty()) {
      fail("data.path", "data mnist needs the folder that holds MNIST's four IDX files");
    }
    if (data.name == "dummy" && data.input_shape.empty()) {
      fail("data.input_shape", "data dummy needs the shape of one sample, for example [1, 28, 28]");
    }
    if (data.name == "dummy" && !data.n_train) {
      fail("data.n_train", "data dummy needs the number of samples to make, for example 2048");
    }
    check_shape("data.input_shape", data.input_shape);
  }

  void check_shape(std::string_view key, const std::vector<int64_t>& shape) const {
    try {
      (void)checked_product(std::span<const int64_t>(shape));
    } catch (const Error&) {
      fail(key, "the product of the sizes does not fit 64 bits");
    }
  }

  void check_optimizer(const OptimizerConfig& optimizer) const {
    if (!optimizer.nesterov) return;
    if (optimizer.name != "sgd") fail("optimizer.nesterov", "only sgd has Nesterov's momentum");
    if (optimizer.momentum == 0) fail("optimizer.nesterov", "needs a momentum greater than 0");
    if (optimizer.dampening != 0)
      fail("optimizer.nesterov", "works without dampening only; leave dampening out");
  }

  const ConfigValue& root_;
};

}  // namespace

RunConfig load_run_config(const ConfigSource& source) {
  ConfigValue root = choose(read_yaml_file(source.file), source);
  for (const std::string& text : source.overrides) apply_override(root, text);
  RunConfig config;
  SectionReader::read_section(root, "", config);
  Checks(root).run(config);
  if (config.data.name == "fashion_mnist" && config.data.path.empty())
    config.data.path = fashion_mnist_folder;
  if (config.output_dir.empty()) config.output_dir = default_output_dir(source);
  return config;
}

std::string to_yaml(const RunConfig& config) {
  YamlWriter writer;
  RunConfig copy = config;  // the key table visits what it may also fill
  visit(writer, copy);
  return writer.finish();
}

}  // namespace kolo
