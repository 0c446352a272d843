#include "settings/value.h"

#include <algorithm>
#include <utility>

namespace kolo {

const ConfigValue* ConfigValue::find(std::string_view key) const {
  const auto entry =
      std::find_if(entries.begin(), entries.end(),
                   [&](const ConfigEntry& candidate) { return candidate.key == key; });
  return entry == entries.end() ? nullptr : &entry->value;
}

ConfigValue* ConfigValue::find(std::string_view key) {
  return const_cast<ConfigValue*>(std::as_const(*this).find(key));
}

bool ConfigValue::operator==(const ConfigValue&) const = default;

std::string describe(const ConfigValue& value) {
  switch (value.kind) {
    case ConfigValue::Kind::nothing:
      return "nothing";
    case ConfigValue::Kind::scalar:
      return quote(value.text);
    case ConfigValue::Kind::list:
      return "a list";
    case ConfigValue::Kind::mapping:
      return "a mapping";
  }
  return {};
}

// Options of the command line have their names for a place; a file's places end with a line.
bool is_from_command_line(const ConfigValue& value) {
  return value.place == command_line || value.place.starts_with('-');
}

const std::string& place_of(const ConfigValue& root, std::string_view dotted_key) {
  const auto dot = dotted_key.find('.');
  const ConfigValue* child = root.find(dotted_key.substr(0, dot));
  if (child == nullptr) return root.place;
  return dot == std::string_view::npos ? child->place
                                       : place_of(*child, dotted_key.substr(dot + 1));
}

}  // namespace kolo
