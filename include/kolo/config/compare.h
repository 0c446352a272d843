#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kolo/config/run_config.h"

namespace kolo {

// Every key of a configuration, "training.batch_size", with its value in one line; "unset" where
// it has none. In the order of the keys in a configuration.
using Settings = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] Settings settings_of(const RunConfig& config);

// A key that two configurations have different values for, as they stand in YAML; what is unset is
// "unset".
struct SettingChange {
  std::string key;  // "training.batch_size"
  std::string before, now;
};

// In the order of the keys in a configuration.
[[nodiscard]] std::vector<SettingChange> changes_between(const RunConfig& before,
                                                         const RunConfig& now);

}  // namespace kolo
