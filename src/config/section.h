#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/rule.h"
#include "config/value.h"

// From a tree of values to typed structs. A struct's keys are listed once, in a template
//     template <typename Field> void visit(Field& field, TrainingConfig& training) {
//       field("batch_size", training.batch_size, positive);
// that is called with a KeyCollector, a SectionReader or a YamlWriter.
namespace kolo {

// Collects the names of a struct's keys.
struct KeyCollector {
  std::vector<std::string> keys;

  template <typename... Rest>
  void operator()(std::string_view key, const Rest&...) {
    keys.emplace_back(key);
  }
};

template <typename T>
concept ConfigStruct = requires(KeyCollector& collector, T& config) {
  visit(collector, config);
};

// Collects the names of all settings: "training.batch_size". Lists of mappings are one setting.
struct SettingCollector {
  std::vector<std::string> settings;
  std::string path;

  template <typename T, typename... Rest>
  void operator()(std::string_view key, T& field, const Rest&...) {
    const std::string name = path.empty() ? std::string(key) : path + "." + std::string(key);
    if constexpr (ConfigStruct<T>) {
      const std::string outer = std::exchange(path, name);
      visit(*this, field);
      path = outer;
    } else {
      settings.push_back(name);
    }
  }
};

template <ConfigStruct T>
[[nodiscard]] std::vector<std::string> known_keys() {
  KeyCollector collector;
  T config;
  visit(collector, config);
  return std::move(collector.keys);
}

// "FILE:LINE: training.batch_size: expected a whole number greater than 0, got "abc"". `path` is
// the key with the names of the mappings around it.
[[noreturn]] void refuse(const ConfigValue& value, std::string_view path, std::string_view reason);

// `; did you mean "batch_size"?`, or nothing when no known word is near.
[[nodiscard]] std::string suggestion(std::string_view word, const std::vector<std::string>& known);

// Throws InputError unless `value` is a mapping (or nothing) of known keys only.
void check_keys(const ConfigValue& value, const std::string& path,
                const std::vector<std::string>& known);

template <typename T>
concept Number = std::same_as<T, int> || std::same_as<T, int64_t> || std::same_as<T, uint64_t> ||
    std::same_as<T, double>;

// What a key accepts, in words: "a whole number greater than 0".
[[nodiscard]] std::string expectation(const bool& destination, const AnyBool& rule);
[[nodiscard]] std::string expectation(const std::string& destination, const AnyText& rule);
[[nodiscard]] std::string expectation(const std::string& destination, const PathText& rule);
[[nodiscard]] std::string expectation(const std::string& destination, const OneOf& rule);
template <Number T>
[[nodiscard]] std::string expectation(const T& destination, const NumberRule& rule);
template <Number T>
[[nodiscard]] std::string expectation(const std::vector<T>& destination, const NumberRule& rule);
[[nodiscard]] std::string expectation(const std::vector<std::string>& destination,
                                      const OneOf& rule);
template <typename T, typename Rule>
[[nodiscard]] std::string expectation(const std::optional<T>&, const Rule& rule) {
  return expectation(T{}, rule);
}

// Each reads one value or throws InputError that names the place, the key, what was expected and
// what was found.
void read_value(const ConfigValue& value, const std::string& path, bool& destination,
                const AnyBool& rule);
void read_value(const ConfigValue& value, const std::string& path, std::string& destination,
                const AnyText& rule);
void read_value(const ConfigValue& value, const std::string& path, std::string& destination,
                const PathText& rule);
void read_value(const ConfigValue& value, const std::string& path, std::string& destination,
                const OneOf& rule);
void read_value(const ConfigValue& value, const std::string& path,
                std::vector<std::string>& destination, const OneOf& rule);
template <Number T>
void read_value(const ConfigValue& value, const std::string& path, T& destination,
                const NumberRule& rule);
template <Number T>
void read_value(const ConfigValue& value, const std::string& path, std::vector<T>& destination,
                const NumberRule& rule);

// Nothing (`key:`, `key: null`) leaves the key to its default.
template <typename T, typename Rule>
void read_value(const ConfigValue& value, const std::string& path, std::optional<T>& destination,
                const Rule& rule) {
  if (value.kind == ConfigValue::Kind::nothing) {
    destination.reset();
    return;
  }
  read_value(value, path, destination.emplace(), rule);
}

// Whether the command line gives a key back to its default: key=null.
[[nodiscard]] bool is_taken_back(const ConfigValue& value);

// Fills structs from one mapping. Keys that the mapping lacks leave their destination as it is.
class SectionReader {
 public:
  // `path` names the mapping in messages; empty for the top level.
  SectionReader(const ConfigValue& mapping, std::string path)
      : mapping_(mapping), path_(std::move(path)) {}

  template <typename T, typename Rule>
  void operator()(std::string_view key, T& destination, const Rule& rule,
                  Presence presence = Presence::optional) const {
    const ConfigValue* value = mapping_.find(key);
    const bool is_given = value != nullptr && !is_taken_back(*value);
    if (is_given) {
      read_value(*value, path_of(key), destination, rule);
    } else if (presence == Presence::required) {
      refuse_missing(value != nullptr ? *value : mapping_, key, expectation(destination, rule));
    }
  }

  template <typename T, typename Rule>
  void operator()(std::string_view key, std::optional<T>& destination, const Rule& rule,
                  Unset) const {
    (*this)(key, destination, rule);
  }

  // A section that is left out is an empty one, so that its required keys are missed.
  template <ConfigStruct T>
  void operator()(std::string_view key, T& destination) const {
    ConfigValue empty;
    empty.place = mapping_.place;
    const ConfigValue* value = mapping_.find(key);
    read_section(value != nullptr ? *value : empty, path_of(key), destination);
  }

  // A list of mappings.
  template <ConfigStruct T>
  void operator()(std::string_view key, std::vector<T>& destination) const {
    const ConfigValue* value = mapping_.find(key);
    if (value == nullptr || is_taken_back(*value)) return;
    const std::string path = path_of(key);
    if (value->kind != ConfigValue::Kind::list) refuse_no_list(*value, path, known_keys<T>());
    destination.clear();
    for (const ConfigValue& item : value->items) {
      const std::string place = item_path(path, destination.size());
      read_section(item, place, destination.emplace_back());
    }
  }

  template <ConfigStruct T>
  static void read_section(const ConfigValue& value, const std::string& path, T& destination) {
    check_keys(value, path, known_keys<T>());
    SectionReader reader(value, path);
    visit(reader, destination);
  }

 private:
  [[nodiscard]] std::string path_of(std::string_view key) const;
  [[nodiscard]] static std::string item_path(const std::string& list, std::size_t index);
  [[noreturn]] static void refuse_no_list(const ConfigValue& value, const std::string& path,
                                          const std::vector<std::string>& keys);
  // `where` it should stand, or was taken back.
  [[noreturn]] void refuse_missing(const ConfigValue& where, std::string_view key,
                                   std::string_view expected) const;

  const ConfigValue& mapping_;
  std::string path_;
};

}  // namespace kolo
