#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <utility>
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
  std::string origin;        // "FILE:LINE", of its key if it has one; "command line"; or an option
  std::string comment = {};  // meaning of nothing, for readers of the file
  int distance = 0;          // `<<` merges between its mapping and it; the fewest win

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

[[nodiscard]] ConfigValue scalar_value(std::string_view text, std::string_view origin = {});

// `"abc"`, `nothing`, `a list` or `a mapping`, for messages.
[[nodiscard]] std::string describe(const ConfigValue& value);

[[nodiscard]] bool is_from_command_line(const ConfigValue& value);

// Place of "training.lr", or of the nearest mapping above it that exists.
[[nodiscard]] const std::string& origin_of(const ConfigValue& root, std::string_view dotted_key);

// Sets "training.lr", replacing its value. Sections on the way are made; other values become
// mappings.
void set_value(ConfigValue& root, std::string_view dotted_key, ConfigValue value);

inline constexpr std::string_view unset_text = "unset";  // stands for Kind::nothing

// Values of a mapping by their dotted keys, in order, each as text in one line.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> flattened(
    const ConfigValue& mapping);

// Rules of keys: their names, and which values they accept. A rule is named beside its key and
// words the error as well.

// A setting as the command line takes it: "training.batch_size".
struct KnownSetting {
  std::string name;
  bool is_required = false;
  bool is_path = false;
};

using KnownSettings = std::vector<KnownSetting>;

// true or false.
struct AnyBool {};

// Any text, one word or quoted.
struct AnyText {};

// A path, in which environment variables are expanded.
struct PathText {};

// One of the names of an enum (kolo/base/enum_names.h), in any case. YAML's own words for truth
// (on, off) are names as well.
struct AnyName {};

// One of these names, read in any case and kept as written here. Messages list the first ones.
struct OneOf {
  std::vector<std::string> names;
  std::vector<std::string> further = {};
};

// A range of numbers, for whole numbers, others and lists of them.
struct NumberRule {
  std::string_view words;  // "greater than 0"
  bool (*accepts)(long double number);
  // More makes no sense: it would be a slip, and take a machine's whole memory or time.
  long double greatest = std::numeric_limits<long double>::infinity();

  [[nodiscard]] constexpr NumberRule up_to(long double most) const {
    return {words, accepts, most};
  }
};

inline constexpr NumberRule positive{" greater than 0", [](long double x) { return x > 0; }};
inline constexpr NumberRule not_negative{" of at least 0", [](long double x) { return x >= 0; }};
inline constexpr NumberRule fraction{" of at least 0 and less than 1",
                                     [](long double x) { return x >= 0 && x < 1; }};
inline constexpr NumberRule mebibytes{" greater than 0 and at most 65536",
                                      [](long double x) { return x > 0 && x <= 65536; }};

inline constexpr long double most_of_a_kind = 1e9L;  // epochs, classes, lengths, a rank's batch
inline constexpr long double most_cells = 65536;     // an edge; channels

enum class Presence { optional, required };

// Meaning of an optional key without a value, for readers of the configuration: "the model's own".
struct Unset {
  std::string_view meaning;
};

// Replaces $NAME and ${NAME} by environment variables, $$ by a dollar, and then a leading ~ (alone
// or before a slash) by $HOME. Throws InputError, which begins with `where`, for a variable that is
// not set and for a $ before anything else.
[[nodiscard]] std::string expand_path(std::string_view text, std::string_view where);

// The text that expand_path() turns into `path`, or into another name of the same file where that
// begins with ~.
[[nodiscard]] std::string escape_path(std::string_view path);

}  // namespace kolo
