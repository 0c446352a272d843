#include "settings/choice_reader.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/text.h"

namespace kolo {

namespace {

OneOf names_of(const Choice& choice) {
  OneOf rule;
  for (const auto* entry : choice.entries) {
    rule.names.push_back(entry->name);
    rule.further.insert(rule.further.end(), entry->aliases.begin(), entry->aliases.end());
  }
  return rule;
}

KnownSettings settings_of(const ChoiceEntry& entry) {
  SettingCollector collector;
  entry.defaults.holder().collect(collector);
  return std::move(collector.settings);
}

bool knows(const ChoiceEntry& entry, const std::string& key) {
  return std::ranges::count(keys_of(entry), key) > 0;
}

std::vector<std::string> owners_of(const std::string& key, const Choice& choice) {
  std::vector<std::string> owners;
  for (const auto* entry : choice.entries)
    if (knows(*entry, key)) owners.push_back(entry->name);
  return owners;
}

}  // namespace

const ChoiceEntry* Choice::find(std::string_view sought) const {
  const auto is_sought = [word = lower_case(std::string(sought))](const std::string& known) {
    return lower_case(known) == word;
  };
  const auto found = std::ranges::find_if(entries, [&](const auto* entry) {
    return is_sought(entry->name) || std::ranges::any_of(entry->aliases, is_sought);
  });
  return found == entries.end() ? nullptr : *found;
}

std::vector<std::string> keys_of(const ChoiceEntry& entry) {
  return keys_of(settings_of(entry));
}

void SettingCollector::operator()(const Choice& choice) {
  const auto add = [&](KnownSetting setting) {
    if (!path.empty()) setting.name = path + "." + setting.name;
    if (std::ranges::count(settings, setting.name, &KnownSetting::name) == 0)
      settings.push_back(std::move(setting));
  };
  add({choice.key, choice.presence == Presence::required});
  for (const auto* entry : choice.entries)
    for (auto& setting : settings_of(*entry)) add(std::move(setting));
}

void SectionReader::operator()(const Choice& choice) const {
  (*this)(choice.key, choice.name, names_of(choice), choice.presence);
  const ChoiceEntry& chosen = *choice.find();
  choice.name = chosen.name;
  choice.own = chosen.defaults;
  SectionReader reader = *this;
  choice.own.holder().read(reader);
  const auto* const name = mapping_.find(choice.key);
  for (const auto& [key, value] : mapping_.entries) {
    if (value.kind == ConfigValue::Kind::nothing || key == choice.key || knows(chosen, key))
      continue;
    // A choice that was written over another one leaves behind what that one had.
    const bool is_overwritten =
        name != nullptr && (value.distance > name->distance || is_from_command_line(*name));
    if (is_overwritten && !is_from_command_line(value)) continue;
    const auto owners = owners_of(key, choice);
    if (owners.empty()) continue;
    const auto own_keys = keys_of(chosen);
    refuse(value, path_of(key),
           fmt::format("is of {}; {} has {}; null leaves it out", join(owners), chosen.name,
                       own_keys.empty() ? "no keys of its own" : join(own_keys)));
  }
}

void TreeWriter::operator()(const Choice& choice) {
  add(choice.key, tree_of(choice.name));
  if (!choice.own.has_value()) {
    if (const auto* chosen = choice.find()) choice.own = chosen->defaults;
  }
  if (choice.own.has_value()) choice.own.holder().write(*this);
}

}  // namespace kolo
