#pragma once

#include <string>
#include <vector>

#include "kolo/config/run_config.h"

namespace kolo {

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
