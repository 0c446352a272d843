#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kolo {

// A setting as the command line takes it: "training.batch_size".
struct KnownSetting {
  std::string name;
  bool is_required = false;
};

using KnownSettings = std::vector<KnownSetting>;

// The setting that a word was meant for: the whole name, or the word after its last dot, where it
// is exact; or else the nearest. Empty where none is near.
[[nodiscard]] std::string nearest_setting(std::string_view word, const KnownSettings& known);

}  // namespace kolo
