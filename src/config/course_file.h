#pragma once

#include <string>

#include "settings/value.h"

namespace kolo {

// Configurations as NERSC's U-Net tutorials write them (sc21-dl-tutorial and ml-pm-training-2022,
// config/UNet.yaml): one level of keys of their own. They are taken as they are.

// Whether a configuration is one of these.
[[nodiscard]] bool is_course_file(const ConfigValue& root);

// The same in kolo's keys, each with the place that its value has in the file. `name`: of the
// configuration, which is a part of the tutorial's output folder. InputError, with the place, for a
// key that they don't have, and for what kolo's network, data and optimizer can't be asked for.
[[nodiscard]] ConfigValue translate_course_file(const ConfigValue& root, const std::string& name);

}  // namespace kolo
