#pragma once

#include "kolo/config/run_config.h"
#include "settings/value.h"

namespace kolo {

// The configuration as to_yaml() writes it.
[[nodiscard]] ConfigValue tree_of(const RunConfig& config);

}  // namespace kolo
