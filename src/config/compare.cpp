#include "kolo/config/compare.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "config/schema.h"
#include "settings/value.h"

namespace kolo {

namespace {

constexpr const char* unset = "unset";

// In one line.
std::string text_of(const ConfigValue& value) {
  std::string text;
  switch (value.kind) {
    case ConfigValue::Kind::nothing:
      return unset;
    case ConfigValue::Kind::scalar:
      return value.text;
    case ConfigValue::Kind::list:
      for (const auto& item : value.items)
        text += fmt::format("{}{}", text.empty() ? "" : ", ", text_of(item));
      return fmt::format("[{}]", text);
    case ConfigValue::Kind::mapping:
      for (const auto& entry : value.entries)
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", entry.key, text_of(entry.value));
      return fmt::format("{{{}}}", text);
  }
  return text;
}

void flatten(const ConfigValue& mapping, const std::string& prefix, Settings& settings) {
  for (const auto& entry : mapping.entries) {
    const auto key = prefix + entry.key;
    if (entry.value.kind == ConfigValue::Kind::mapping)
      flatten(entry.value, key + ".", settings);
    else
      settings.emplace_back(key, text_of(entry.value));
  }
}

std::string value_of(const Settings& settings, const std::string& key) {
  const auto found = std::ranges::find(settings, key, &Settings::value_type::first);
  return found == settings.end() ? unset : found->second;
}

}  // namespace

Settings settings_of(const RunConfig& config) {
  Settings settings;
  flatten(tree_of(config), "", settings);
  return settings;
}

std::vector<SettingChange> changes_between(const RunConfig& before, const RunConfig& now) {
  const auto earlier = settings_of(before), later = settings_of(now);
  std::vector<SettingChange> changes;
  const auto compare = [&](const std::string& key) {
    const bool is_known = std::ranges::find(changes, key, &SettingChange::key) != changes.end();
    SettingChange change{key, value_of(earlier, key), value_of(later, key)};
    if (!is_known && change.before != change.now) changes.push_back(std::move(change));
  };
  for (const auto& [key, value] : later) compare(key);
  for (const auto& [key, value] : earlier) compare(key);
  return changes;
}

}  // namespace kolo
