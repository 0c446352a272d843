#pragma once

#include "kolo/config/run_config.h"
#include "settings/value.h"

namespace kolo {

// What depends on more than one key, before defaults are filled in. Throws InputError that names
// the key, and from `root`, which the configuration was read from, its place.
void check_run_config(const RunConfig& config, const ConfigValue& root);

}  // namespace kolo
