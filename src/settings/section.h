#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kolo/base/enum_names.h"
#include "settings/value.h"

// From a tree of values to typed structs. A struct's keys are listed once, in a template
//     template <typename Field> void visit(Field& field, TrainingConfig& training) {
//       field("batch_size", training.batch_size, positive);
// that is called with a SettingCollector, a SectionReader or a TreeWriter.
namespace kolo {

struct Choice;  // choice_reader.h

struct SettingCollector;

template <typename T>
concept ConfigStruct = requires(SettingCollector& collector, T& config) {
  visit(collector, config);
};

// Collects all settings. Lists of mappings are one setting.
struct SettingCollector {
  KnownSettings settings;
  std::string path;

  void operator()(const Choice& choice);

  template <typename T, typename... Rest>
  void operator()(std::string_view key, T& field, const Rest&...) {
    const std::string name = path.empty() ? std::string(key) : path + "." + std::string(key);
    if constexpr (ConfigStruct<T>) {
      const std::string outer = std::exchange(path, name);
      visit(*this, field);
      path = outer;
    } else {
      settings.push_back(
          {name, (std::same_as<Rest, Presence> || ...), (std::same_as<Rest, PathText> || ...)});
    }
  }
};

template <ConfigStruct T>
[[nodiscard]] KnownSettings known_settings(T& config) {
  SettingCollector collector;
  visit(collector, config);
  return std::move(collector.settings);
}
template <ConfigStruct T>
[[nodiscard]] KnownSettings known_settings() {
  T config;
  return known_settings(config);
}

// The keys of the mapping that the settings are in: "training" of "training.batch_size", once.
[[nodiscard]] std::vector<std::string> keys_of(const KnownSettings& settings);

// Setting that a word was meant for: one of this name, or with this word after its last dot, or
// else the nearest; empty if none is near.
[[nodiscard]] std::string nearest_setting(std::string_view word, const KnownSettings& known);

// "FILE:LINE: training.batch_size: expected a whole number greater than 0, got "abc"". `path` is
// the key with the names of the mappings around it.
[[noreturn]] void refuse(const ConfigValue& value, std::string_view path, std::string_view reason);

// `; did you mean "batch_size"?`, or nothing when no known word is near.
[[nodiscard]] std::string suggestion(std::string_view word, const std::vector<std::string>& known);

// Throws InputError unless `value` is a mapping (or nothing) of known keys only. A key may be meant
// for another section, of `settings`.
void check_keys(const ConfigValue& value, const std::string& path,
                const std::vector<std::string>& known, const KnownSettings& settings);

template <typename T>
concept Number = std::same_as<T, int> || std::same_as<T, int64_t> || std::same_as<T, uint64_t> ||
    std::same_as<T, double>;

// Values that a key accepts, in words: "a whole number greater than 0".
[[nodiscard]] std::string expectation(const bool& destination, const AnyBool& rule);
[[nodiscard]] std::string expectation(const std::string& destination, const AnyText& rule);
[[nodiscard]] std::string expectation(const std::vector<std::string>& destination,
                                      const AnyText& rule);
[[nodiscard]] std::string expectation(const std::string& destination, const PathText& rule);
[[nodiscard]] std::string expectation(const std::string& destination, const OneOf& rule);
template <Number T>
[[nodiscard]] std::string expectation(const T& destination, const NumberRule& rule);
template <Number T>
[[nodiscard]] std::string expectation(const std::vector<T>& destination, const NumberRule& rule);
template <NamedEnum E>
[[nodiscard]] std::string expectation(const E&, const AnyName&) {
  return expectation(std::string(), OneOf{known_names<E>()});
}
template <NamedEnum E>
[[nodiscard]] std::string expectation(const std::vector<E>&, const AnyName&) {
  return "a list of " + join(known_names<E>());
}
template <typename T, typename Rule>
[[nodiscard]] std::string expectation(const std::optional<T>&, const Rule& rule) {
  return expectation(T{}, rule);
}

// "training.metrics[1]"
[[nodiscard]] std::string item_path(const std::string& list, std::size_t index);

// Reads one value. InputError names the place, the key, what was expected and what was found.
void read_value(const ConfigValue& value, const std::string& path, bool& destination,
                const AnyBool& rule);
void read_value(const ConfigValue& value, const std::string& path, std::string& destination,
                const AnyText& rule);
void read_value(const ConfigValue& value, const std::string& path, std::string& destination,
                const PathText& rule);
void read_value(const ConfigValue& value, const std::string& path, std::string& destination,
                const OneOf& rule);
template <NamedEnum E>
void read_value(const ConfigValue& value, const std::string& path, E& destination, const AnyName&) {
  std::string name;
  read_value(value, path, name, OneOf{known_names<E>()});
  destination = *find_named<E>(name);
}
template <Number T>
void read_value(const ConfigValue& value, const std::string& path, T& destination,
                const NumberRule& rule);
[[noreturn]] void refuse_value(const ConfigValue& value, const std::string& path,
                               const std::string& expected, std::string_view advice = {});
template <typename T, typename Rule>
void read_value(const ConfigValue& value, const std::string& path, std::vector<T>& destination,
                const Rule& rule) {
  if (value.kind != ConfigValue::Kind::list)
    refuse_value(value, path, expectation(destination, rule));
  destination.clear();
  for (const ConfigValue& item : value.items) {
    const std::string item_name = item_path(path, destination.size());
    read_value(item, item_name, destination.emplace_back(), rule);
  }
}

// Leaves the key to its default for no value (`key:`, `key: null`).
template <typename T, typename Rule>
void read_value(const ConfigValue& value, const std::string& path, std::optional<T>& destination,
                const Rule& rule) {
  if (value.kind == ConfigValue::Kind::nothing) {
    destination.reset();
    return;
  }
  read_value(value, path, destination.emplace(), rule);
}

// Tells whether the command line gives a key back to its default: key=null.
[[nodiscard]] bool is_taken_back(const ConfigValue& value);

// Fills structs from one mapping. Keys that the mapping lacks leave their destination as it is.
class SectionReader {
 public:
  // `path` names the mapping in messages; empty for the top level. `settings` are all there are.
  SectionReader(const ConfigValue& mapping, std::string path, const KnownSettings& settings)
      : mapping_(mapping), path_(std::move(path)), settings_(settings) {}

  void operator()(const Choice& choice) const;

  // `more`: Presence, or the meaning of an optional one without a value (Unset).
  template <typename T, typename Rule, typename More = Presence>
  void operator()(std::string_view key, T& destination, const Rule& rule,
                  [[maybe_unused]] More more = {}) const {
    const ConfigValue* value = mapping_.find(key);
    if (value != nullptr && !is_taken_back(*value))
      return read_value(*value, path_of(key), destination, rule);
    if constexpr (std::same_as<More, Presence>) {
      if (more == Presence::required)
        refuse_missing(value != nullptr ? *value : mapping_, key, expectation(destination, rule));
    }
  }

  // A section that is left out is an empty one, so that its required keys are missed.
  template <ConfigStruct T>
  void operator()(std::string_view key, T& destination) const {
    ConfigValue empty;
    empty.origin = mapping_.origin;
    const ConfigValue* value = mapping_.find(key);
    read_section(value != nullptr ? *value : empty, path_of(key), destination, settings_);
  }

  // A list of mappings.
  template <ConfigStruct T>
  void operator()(std::string_view key, std::vector<T>& destination) const {
    const ConfigValue* value = mapping_.find(key);
    if (value == nullptr || is_taken_back(*value)) return;
    const std::string path = path_of(key);
    if (value->kind != ConfigValue::Kind::list)
      refuse_no_list(*value, path, keys_of(known_settings<T>()));
    destination.clear();
    for (const ConfigValue& item : value->items) {
      const std::string item_name = item_path(path, destination.size());
      read_section(item, item_name, destination.emplace_back(), settings_);
    }
  }

  template <ConfigStruct T>
  static void read_section(const ConfigValue& value, const std::string& path, T& destination,
                           const KnownSettings& settings) {
    check_keys(value, path, keys_of(known_settings(destination)), settings);
    SectionReader reader(value, path, settings);
    visit(reader, destination);
  }

 private:
  [[nodiscard]] std::string path_of(std::string_view key) const;
  [[noreturn]] static void refuse_no_list(const ConfigValue& value, const std::string& path,
                                          const std::vector<std::string>& keys);
  // `where`: mapping that lacks the key, or null that unset it; gives the place in the message.
  [[noreturn]] void refuse_missing(const ConfigValue& where, std::string_view key,
                                   std::string_view expected) const;

  const ConfigValue& mapping_;
  std::string path_;
  const KnownSettings& settings_;
};

// Writes structs as a tree of values that SectionReader reads back to the same. An unset value is
// nothing, with its meaning for a comment.
class TreeWriter {
 public:
  TreeWriter() { tree_.kind = ConfigValue::Kind::mapping; }

  void operator()(const Choice& choice);

  template <typename T, typename Rule>
  void operator()(std::string_view key, const T& value, const Rule&,
                  Presence = Presence::optional) {
    add(key, tree_of(value));
  }
  template <typename T, typename Rule>
  void operator()(std::string_view key, const std::optional<T>& value, const Rule&,
                  Unset unset = {"unset"}) {
    add(key, value ? tree_of(*value) : nothing(unset.meaning));
  }
  void operator()(std::string_view key, const std::string& path, PathText) {
    add(key, tree_of(escape_path(path)));
  }
  template <ConfigStruct T>
  void operator()(std::string_view key, T& section) {
    add(key, tree_of_section(section));
  }
  template <ConfigStruct T>
  void operator()(std::string_view key, std::vector<T>& sections) {
    ConfigValue list;
    list.kind = ConfigValue::Kind::list;
    for (T& section : sections) list.items.push_back(tree_of_section(section));
    add(key, std::move(list));
  }

  template <ConfigStruct T>
  [[nodiscard]] static ConfigValue tree_of_section(T& section) {
    TreeWriter writer;
    visit(writer, section);
    return std::move(writer.tree_);
  }

 private:
  [[nodiscard]] static ConfigValue nothing(std::string_view meaning);
  [[nodiscard]] static ConfigValue tree_of(bool value);
  [[nodiscard]] static ConfigValue tree_of(const std::string& text);
  // The shortest decimal that reads back to the same number.
  template <Number T>
  [[nodiscard]] static ConfigValue tree_of(T value);
  template <NamedEnum E>
  [[nodiscard]] static ConfigValue tree_of(E value) {
    return tree_of(std::string(name_of(value)));
  }
  template <typename T>
  [[nodiscard]] static ConfigValue tree_of(const std::vector<T>& values) {
    ConfigValue list;
    list.kind = ConfigValue::Kind::list;
    for (const T& value : values) list.items.push_back(tree_of(value));
    return list;
  }
  void add(std::string_view key, ConfigValue value);

  ConfigValue tree_;
};

}  // namespace kolo
