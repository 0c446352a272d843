#include "config/gone_keys.h"

#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "settings/section.h"

namespace kolo {

namespace {

struct GoneKey {
  std::string_view section, key, instead;
};

constexpr GoneKey gone_keys[] = {
    {"parallel", "chunks",
     "each rank of a pipeline has one part of the network: leave the key out"},
};

}  // namespace

void refuse_gone_keys(ConfigValue& root, bool is_record) {
  for (const auto& [section, key, instead] : gone_keys) {
    auto* const mapping = section.empty() ? &root : root.find(section);
    const auto* const value = mapping == nullptr ? nullptr : mapping->find(key);
    if (value == nullptr) continue;
    if (!is_record || is_from_command_line(*value))
      refuse(*value, fmt::format("{}{}{}", section, section.empty() ? "" : ".", key), instead);
    std::erase_if(mapping->entries, [&](const ConfigEntry& entry) { return entry.key == key; });
  }
}

}  // namespace kolo
