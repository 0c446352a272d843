#include "config/override.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "config/yaml_reader.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

const std::string command_line = "command line";

// The value of a key, made where there is none. What is not a mapping becomes one.
ConfigValue& child_of(ConfigValue& parent, std::string_view key) {
  if (parent.kind != ConfigValue::Kind::mapping) {
    parent = {};
    parent.kind = ConfigValue::Kind::mapping;
    parent.place = command_line;
  }
  if (ConfigValue* child = parent.find(key)) return *child;
  ConfigValue child;
  child.place = command_line;
  return parent.entries.emplace_back(ConfigEntry{std::string(key), std::move(child)}).value;
}

void set(ConfigValue& root, std::string_view keys, ConfigValue value) {
  ConfigValue* target = &root;
  while (!keys.empty()) {
    const auto dot = keys.find('.');
    target = &child_of(*target, keys.substr(0, dot));
    keys = dot == std::string_view::npos ? std::string_view{} : keys.substr(dot + 1);
  }
  *target = std::move(value);
}

}  // namespace

void apply_override(ConfigValue& root, const std::string& text) {
  const auto equals = text.find('=');
  const std::string_view keys = std::string_view(text).substr(0, equals);
  const bool has_empty_key = keys.empty() || keys.front() == '.' || keys.back() == '.' ||
                             keys.find("..") != std::string_view::npos;
  if (equals == std::string::npos || has_empty_key) {
    throw InputError(
        fmt::format("{}: expected key=value, for example training.batch_size=32, got {}",
                    command_line, quote(text)));
  }
  set(root, keys, read_yaml_text(text.substr(equals + 1), command_line));
}

bool is_from_command_line(const ConfigValue& value) {
  return value.place == command_line;
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
