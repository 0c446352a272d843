#include "settings/choice_reader.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/suggest.h"

namespace kolo {

namespace {

std::vector<std::string> names_of(const Choice& choice) {
  std::vector<std::string> names;
  for (const auto* entry : choice.entries) names.push_back(entry->name);
  return names;
}

bool knows(const ChoiceEntry& entry, const std::string& key) {
  return std::ranges::count(keys_of(entry), key) > 0;
}

ConfigValue tree_of_completed(const ChoiceEntry& entry, OwnSettings own) {
  entry.complete(own);
  TreeWriter writer;
  own.holder().write(writer);
  return writer.tree();
}

bool is_default(const ConfigEntry& given, const ChoiceEntry& entry) {
  ConfigValue mapping;
  mapping.kind = ConfigValue::Kind::mapping;
  mapping.entries.push_back(given);
  auto own = entry.defaults;
  try {
    const KnownSettings none;
    SectionReader reader(mapping, "", none);
    own.holder().read(reader);
  } catch (const InputError&) {
    return false;
  }
  return tree_of_completed(entry, own) == tree_of_completed(entry, entry.defaults);
}

// A key of other entries than the chosen one.
struct ForeignKey {
  const ConfigEntry* given;
  std::vector<const ChoiceEntry*> owners;
};

std::vector<ForeignKey> foreign_keys(const ConfigValue& mapping, const Choice& choice,
                                     const ChoiceEntry& chosen) {
  std::vector<ForeignKey> foreign;
  for (const auto& given : mapping.entries) {
    if (given.value.kind == ConfigValue::Kind::nothing || knows(chosen, given.key)) continue;
    ForeignKey key{&given, {}};
    for (const auto* entry : choice.entries)
      if (knows(*entry, given.key)) key.owners.push_back(entry);
    if (!key.owners.empty()) foreign.push_back(std::move(key));
  }
  return foreign;
}

// Nobody writes more keys of other choices than these by hand; earlier versions wrote all there are
// into a run's config.yaml, with their defaults.
constexpr std::size_t most_by_hand = 4;

bool stands_for_nothing(const ForeignKey& key) {
  return !is_from_command_line(key.given->value) &&
         std::ranges::any_of(key.owners,
                             [&](const auto* owner) { return is_default(*key.given, *owner); });
}

}  // namespace

const ChoiceEntry* Choice::find() const {
  const auto found = std::ranges::find(entries, name, &ChoiceEntry::name);
  return found == entries.end() ? nullptr : *found;
}

std::vector<std::string> keys_of(const ChoiceEntry& entry) {
  SettingCollector collector;
  entry.defaults.holder().collect(collector);
  std::vector<std::string> keys;
  for (const auto& setting : collector.settings) keys.push_back(setting.name);
  return keys;
}

void KeyCollector::operator()(const Choice& choice) {
  keys.emplace_back("name");
  for (const auto* entry : choice.entries) {
    for (const auto& key : keys_of(*entry))
      if (std::ranges::count(keys, key) == 0) keys.push_back(key);
  }
}

void SettingCollector::operator()(const Choice& choice) {
  KeyCollector collector;
  collector(choice);
  for (const auto& key : collector.keys)
    settings.push_back({path.empty() ? key : path + "." + key, key == "name"});
}

void SectionReader::operator()(const Choice& choice) const {
  (*this)("name", choice.name, OneOf{names_of(choice)}, Presence::required);
  const ChoiceEntry& chosen = *choice.find();
  choice.own = chosen.defaults;
  SectionReader reader = *this;
  choice.own.holder().read(reader);
  const auto foreign = foreign_keys(mapping_, choice, chosen);
  for (const auto& key : foreign) {
    if (foreign.size() > most_by_hand && stands_for_nothing(key)) continue;
    std::vector<std::string> owners;
    for (const auto* owner : key.owners) owners.push_back(owner->name);
    const auto own_keys = keys_of(chosen);
    refuse(key.given->value, path_of(key.given->key),
           fmt::format("is of {}; {} has {}; null leaves it out", join(owners), chosen.name,
                       own_keys.empty() ? "no keys of its own" : join(own_keys)));
  }
}

void TreeWriter::operator()(const Choice& choice) {
  add("name", tree_of(choice.name));
  if (!choice.own.has_value()) {
    if (const auto* chosen = choice.find()) choice.own = chosen->defaults;
  }
  if (choice.own.has_value()) choice.own.holder().write(*this);
}

}  // namespace kolo
