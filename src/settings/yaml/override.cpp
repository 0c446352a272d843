#include "settings/yaml/yaml.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "settings/section.h"

namespace kolo {

namespace {

// The value of a key, made where there is none. What is not a mapping becomes one.
ConfigValue& child_of(ConfigValue& parent, std::string_view key, const std::string& place) {
  if (parent.kind != ConfigValue::Kind::mapping) {
    parent = {};
    parent.kind = ConfigValue::Kind::mapping;
    parent.place = place;
  }
  if (ConfigValue* child = parent.find(key)) return *child;
  ConfigValue child;
  child.place = place;
  return parent.entries.emplace_back(ConfigEntry{std::string(key), std::move(child)}).value;
}

void set(ConfigValue& root, std::string_view keys, ConfigValue value) {
  const std::string place = value.place;
  ConfigValue* target = &root;
  while (!keys.empty()) {
    const auto dot = keys.find('.');
    target = &child_of(*target, keys.substr(0, dot), place);
    keys = dot == std::string_view::npos ? std::string_view{} : keys.substr(dot + 1);
  }
  value.in_file = is_from_command_line(*target) ? target->in_file : target->text;
  *target = std::move(value);
}

// What was meant by a word without "=": "n_epochs:3" or "n_epochs 3".
std::string meant_by(std::string_view text, const KnownSettings& settings) {
  const auto end = text.find_first_of(":= ");
  const std::string setting = nearest_setting(text.substr(0, end), settings);
  if (setting.empty()) return {};
  std::string_view value = end == std::string_view::npos ? "" : text.substr(end + 1);
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return fmt::format("; did you mean {}={}?", setting, value.empty() ? "VALUE" : value);
}

// Whether key=null gives the setting its default: all but the required ones.
bool has_default(std::string_view name, const KnownSettings& settings) {
  const auto found = std::ranges::find(settings, name, &KnownSetting::name);
  return found != settings.end() && !found->is_required;
}

}  // namespace

void apply_override(ConfigValue& root, const std::string& text, const KnownSettings& settings,
                    std::string_view place) {
  const auto equals = text.find('=');
  const std::string_view keys = std::string_view(text).substr(0, equals);
  const bool has_empty_key = keys.empty() || keys.front() == '.' || keys.back() == '.' ||
                             keys.find("..") != std::string_view::npos;
  if (equals == std::string::npos || has_empty_key) {
    throw InputError(
        fmt::format("{}: expected key=value, for example training.batch_size=32, got {}{}", place,
                    quote(text), text.empty() ? "" : meant_by(text, settings)));
  }
  if (text.find_first_not_of(' ', equals + 1) == std::string::npos) {
    throw InputError(fmt::format("{}: expected a value after {}=, got nothing; {}", place, keys,
                                 has_default(keys, settings)
                                     ? fmt::format("write {}=null for the default", keys)
                                     : "leave it out to keep what the file says"));
  }
  set(root, keys, read_yaml_text(text.substr(equals + 1), std::string(place)));
}

void set_text(ConfigValue& root, const std::string& key, const std::string& text) {
  ConfigValue value;
  value.kind = ConfigValue::Kind::scalar;
  value.text = text;
  value.is_quoted = true;
  value.place = command_line;
  set(root, key, std::move(value));
}

}  // namespace kolo
