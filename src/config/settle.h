#pragma once

#include <cstdint>

#include "kolo/base/error.h"
#include "kolo/config/run_config.h"
#include "settings/value.h"

// What is done to a configuration when it is read, beside reading each key.
namespace kolo {

constexpr std::int64_t default_batch_size = 64;  // samples per rank

// Leaves one of training's batch_size, local_batch_size and global_batch_size in the tree: one from
// the command line takes the place of the file's. InputError when the file, or the command line,
// has several.
void settle_batch_sizes(ConfigValue& root);

// What depends on more than one key, before defaults are filled in. Throws InputError that names
// the key, and from `root`, which the configuration was read from, its place.
void check_run_config(const RunConfig& config, const ConfigValue& root,
                      const ModelCatalogue& models);

// Its two parts: within a section, and what can't be had together.
void check_sections(const RunConfig& config, const ConfigValue& root, const ModelCatalogue& models);
void check_combinations(const RunConfig& config, const ConfigValue& root,
                        const ModelCatalogue& models);

// Gives values to what a checked configuration leaves open and what does not depend on the data:
// the data's usual folder, the model's and the optimizer's usual numbers. Shapes of images get
// their channels first.
void fill_defaults(RunConfig& config, const ModelCatalogue& models);

// What `make` returns; its InputError gets the place and the name of the setting that it is about.
template <typename Make>
auto at_setting(const RunConfig& config, std::string_view key, const Make& make) {
  try {
    return make();
  } catch (const InputError& error) {
    refuse_setting(config, key, error.what());
  }
}

}  // namespace kolo
