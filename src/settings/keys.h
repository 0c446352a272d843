#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

// What is known of keys: their names, and which values they accept. A rule is named beside its key
// and words the error as well.
namespace kolo {

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

// One of these names, read in any case and kept as written here.
struct OneOf {
  std::vector<std::string> names;
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

inline constexpr NumberRule any_number{"", [](long double) { return true; }};
inline constexpr NumberRule positive{" greater than 0", [](long double x) { return x > 0; }};
inline constexpr NumberRule not_negative{" of at least 0", [](long double x) { return x >= 0; }};
inline constexpr NumberRule fraction{" of at least 0 and less than 1",
                                     [](long double x) { return x >= 0 && x < 1; }};
inline constexpr NumberRule mebibytes{" greater than 0 and at most 65536",
                                      [](long double x) { return x > 0 && x <= 65536; }};

inline constexpr long double most_of_a_kind = 1e9L;  // epochs, classes, lengths, a rank's batch
inline constexpr long double most_cells = 65536;     // an edge; channels

enum class Presence { optional, required };

// What an optional key stands for without a value, for those who read the configuration:
// "the model's own".
struct Unset {
  std::string_view meaning;
};

}  // namespace kolo
