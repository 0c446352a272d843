#include "settings/value.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

const ConfigValue* ConfigValue::find(std::string_view key) const {
  const auto entry = std::ranges::find(entries, key, &ConfigEntry::key);
  return entry == entries.end() ? nullptr : &entry->value;
}

ConfigValue* ConfigValue::find(std::string_view key) {
  return const_cast<ConfigValue*>(std::as_const(*this).find(key));
}

bool ConfigValue::operator==(const ConfigValue&) const = default;

ConfigValue scalar_value(std::string_view text, std::string_view origin) {
  ConfigValue value;
  value.kind = ConfigValue::Kind::scalar;
  value.text = text;
  value.origin = origin;
  return value;
}

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
  return value.origin == command_line || value.origin.starts_with('-');
}

const std::string& origin_of(const ConfigValue& root, std::string_view dotted_key) {
  const auto dot = dotted_key.find('.');
  const ConfigValue* child = root.find(dotted_key.substr(0, dot));
  if (child == nullptr) return root.origin;
  return dot == std::string_view::npos ? child->origin
                                       : origin_of(*child, dotted_key.substr(dot + 1));
}

namespace {

std::string text_in_one_line(const ConfigValue& value) {
  std::string text;
  switch (value.kind) {
    case ConfigValue::Kind::nothing:
      return std::string(unset_text);
    case ConfigValue::Kind::scalar:
      return value.text;
    case ConfigValue::Kind::list:
      for (const auto& item : value.items)
        text += fmt::format("{}{}", text.empty() ? "" : ", ", text_in_one_line(item));
      return fmt::format("[{}]", text);
    case ConfigValue::Kind::mapping:
      for (const auto& [key, each] : value.entries)
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", key, text_in_one_line(each));
      return fmt::format("{{{}}}", text);
  }
  return text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> flattened(const ConfigValue& mapping) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const auto& [key, value] : mapping.entries) {
    if (value.kind != ConfigValue::Kind::mapping) {
      settings.emplace_back(key, text_in_one_line(value));
      continue;
    }
    for (auto& [below, text] : flattened(value))
      settings.emplace_back(fmt::format("{}.{}", key, below), std::move(text));
  }
  return settings;
}

void set_value(ConfigValue& root, std::string_view dotted_key, ConfigValue value) {
  ConfigValue* target = &root;
  for (auto rest = dotted_key; !rest.empty();) {
    const auto dot = rest.find('.');
    const auto key = rest.substr(0, dot);
    rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
    if (target->kind != ConfigValue::Kind::mapping) {
      *target = {};
      target->kind = ConfigValue::Kind::mapping;
      target->origin = value.origin;
    }
    ConfigValue* child = target->find(key);
    if (child == nullptr) {
      child = &target->entries.emplace_back(ConfigEntry{std::string(key), {}}).value;
      child->origin = value.origin;
    }
    target = child;
  }
  *target = std::move(value);
}

namespace {

constexpr std::string_view name_letters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

bool is_variable_name(std::string_view name) {
  const bool begins_with_digit = !name.empty() && name[0] >= '0' && name[0] <= '9';
  return !name.empty() && !begins_with_digit &&
         name.find_first_not_of(name_letters) == std::string_view::npos;
}

std::string variable(const std::string& name, std::string_view text, std::string_view where) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) {
    throw InputError(
        fmt::format("{}: the environment variable {} is not set, needed for {}; set it, "
                    "or write $$ for a plain dollar",
                    where, name, quote(text)));
  }
  return value;
}

// The name after a dollar, with or without braces, and how many letters it takes in `rest`.
struct Reference {
  std::string_view name;
  std::size_t length = 0;
};

Reference reference_at(std::string_view rest) {
  if (rest.starts_with('{')) {
    const auto end = rest.find('}');
    if (end == std::string_view::npos) return {};
    return {rest.substr(1, end - 1), end + 1};
  }
  const auto name = rest.substr(0, rest.find_first_not_of(name_letters));
  return {name, name.size()};
}

}  // namespace

std::string expand_path(std::string_view text, std::string_view where) {
  std::string path;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      path += text[i];
      continue;
    }
    const auto rest = text.substr(i + 1);
    if (rest.starts_with('$')) {
      path += '$';
      ++i;
      continue;
    }
    const Reference reference = reference_at(rest);
    if (!is_variable_name(reference.name)) {
      throw InputError(fmt::format("{}: in {} a $ must be followed by NAME, {{NAME}} or another $",
                                   where, quote(text)));
    }
    path += variable(std::string(reference.name), text, where);
    i += reference.length;
  }
  if (path == "~" || path.starts_with("~/")) path.replace(0, 1, variable("HOME", text, where));
  return path;
}

std::string escape_path(std::string_view path) {
  std::string text = path == "~" || path.starts_with("~/") ? "./" : "";
  for (const char letter : path) text += letter == '$' ? "$$" : std::string(1, letter);
  return text;
}

}  // namespace kolo
