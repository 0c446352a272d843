#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kolo/base/text.h"

namespace kolo {

struct ConfigEntry;

inline constexpr std::string_view command_line = "command line";

// One value of a configuration: YAML's tree with aliases and merge keys expanded, in which each
// value knows its place.
struct ConfigValue {
  enum class Kind { nothing, scalar, list, mapping };

  Kind kind = Kind::nothing;
  std::string text;                  // of a scalar
  bool is_quoted = false;            // a scalar that is text, whatever it looks like
  std::vector<ConfigValue> items;    // of a list
  std::vector<ConfigEntry> entries;  // of a mapping, each key once
  std::string
      place;  // "FILE:LINE", the line of its key where it has one; "command line"; or an option
  std::string comment = {};  // of nothing: what that means, for who reads it written
  std::string in_file = {};  // of the command line: the text that the file had here

  // The value of a mapping's key, nullptr where there is none.
  [[nodiscard]] const ConfigValue* find(std::string_view key) const;
  [[nodiscard]] ConfigValue* find(std::string_view key);

  bool operator==(const ConfigValue&) const;
};

struct ConfigEntry {
  std::string key;
  ConfigValue value;

  bool operator==(const ConfigEntry&) const = default;
};

// `"abc"`, `nothing`, `a list` or `a mapping`, for messages.
[[nodiscard]] std::string describe(const ConfigValue& value);

[[nodiscard]] bool is_from_command_line(const ConfigValue& value);

// Where "training.lr" stands, or the nearest mapping above it that exists.
[[nodiscard]] const std::string& place_of(const ConfigValue& root, std::string_view dotted_key);

}  // namespace kolo
