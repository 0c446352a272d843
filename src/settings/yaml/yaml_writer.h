#pragma once

#include <string>

#include "settings/value.h"

namespace kolo {

// A mapping as YAML that read_yaml_file() reads back to the same; lists stand in one line.
[[nodiscard]] std::string write_yaml(const ConfigValue& mapping);

}  // namespace kolo
