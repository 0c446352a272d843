#pragma once

#include <cstdint>
#include <string>

#include "kolo/base/error.h"
#include "kolo/config/run_config.h"
#include "settings/value.h"

// Steps of reading a configuration, beside reading each key.
namespace kolo {

// Configurations as NERSC's U-Net tutorials write them (sc21-dl-tutorial and ml-pm-training-2022,
// config/UNet.yaml): one level of keys of their own. They are taken as they are.

// Tells whether a configuration is one of these.
[[nodiscard]] bool is_course_file(const ConfigValue& root);

// Translates it to kolo's keys, each with the place that its value has in the file. `name`: of the
// configuration, which is a part of the tutorial's output folder. InputError, with the place, for
// unknown keys and for values that kolo's network, data and optimizer don't have.
[[nodiscard]] ConfigValue translate_course_file(const ConfigValue& root, const std::string& name);

constexpr std::int64_t default_batch_size = 64;  // samples per rank

// Leaves one of training's batch_size, local_batch_size and global_batch_size in the tree: one from
// the command line replaces the file's. InputError when the file, or the command line, has several.
void settle_batch_sizes(ConfigValue& root);

// Checks combinations of keys, before defaults are filled in. InputError names the key and its
// place.
void check_run_config(const RunConfig& config, const ModelCatalogue& models);

// Features of a step that a configuration uses.
[[nodiscard]] StepFeatures step_features_of(const RunConfig& config);

// RefuseKey that puts `section.` before keys, for catalogue entries, which don't know their
// section. Keeps references to both arguments.
[[nodiscard]] RefuseKey refuse_in(const RunConfig& config, std::string_view section);

// Gives values to keys that a checked configuration leaves open and that do not depend on the data:
// the data's usual folder, the model's and the optimizer's usual numbers. Shapes of images get
// their channels first.
void fill_defaults(RunConfig& config, const ModelCatalogue& models);

// Calls `make`; its InputError gets the place and the name of the setting that it is about.
template <typename Make>
auto at_setting(const RunConfig& config, std::string_view key, const Make& make) {
  try {
    return make();
  } catch (const InputError& error) {
    refuse_setting(config, key, error.what());
  }
}

}  // namespace kolo
