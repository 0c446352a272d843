#include "settings/section.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/text.h"

namespace kolo {

namespace {

// Advice on a scalar that looks right but is quoted.
std::string_view advice_on_quotes(const ConfigValue& value) {
  return value.is_quoted ? ", a text because of its quotes; leave them out" : "";
}

// Text of a plain scalar; null for quoted ones, which are no numbers or truth values.
const std::string* plain_text(const ConfigValue& value) {
  return value.kind == ConfigValue::Kind::scalar && !value.is_quoted ? &value.text : nullptr;
}

// Tells whether the text is a whole number of more digits than T has.
template <Number T>
bool is_too_large(std::string_view text) {
  if constexpr (std::is_integral_v<T>) {
    if (text.starts_with('+')) text.remove_prefix(1);
    return text.size() > 9 && text.find_first_not_of("0123456789") == std::string_view::npos;
  }
  return false;
}

// Greatest number that a rule or a type allows, as one writes it.
template <Number T>
std::string greatest_text(const NumberRule& rule) {
  constexpr auto of_type = std::numeric_limits<T>::max();
  if (rule.greatest >= static_cast<long double>(of_type)) return fmt::format("{}", of_type);
  return fmt::format("{}", static_cast<T>(rule.greatest));
}

}  // namespace

void refuse(const ConfigValue& value, std::string_view path, std::string_view reason) {
  throw InputError(fmt::format("{}: {}{}{}", value.origin, path, path.empty() ? "" : ": ", reason));
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::string near = nearest(word, known);
  return near.empty() ? "" : fmt::format("; did you mean {}?", quote(near));
}

std::string nearest_setting(std::string_view word, const KnownSettings& known) {
  const bool is_whole = word.find('.') != std::string_view::npos;
  std::vector<std::string> names;
  for (const auto& setting : known)
    names.push_back(is_whole ? setting.name : setting.name.substr(setting.name.rfind('.') + 1));
  auto found = std::find(names.begin(), names.end(), word);
  if (found == names.end()) found = std::find(names.begin(), names.end(), nearest(word, names));
  return found == names.end() ? "" : known[static_cast<std::size_t>(found - names.begin())].name;
}

std::vector<std::string> keys_of(const KnownSettings& settings) {
  std::vector<std::string> keys;
  for (const auto& setting : settings) {
    auto key = setting.name.substr(0, setting.name.find('.'));
    if (std::ranges::find(keys, key) == keys.end()) keys.push_back(std::move(key));
  }
  return keys;
}

void check_keys(const ConfigValue& value, const std::string& path,
                const std::vector<std::string>& known, const KnownSettings& settings) {
  if (value.kind != ConfigValue::Kind::nothing && value.kind != ConfigValue::Kind::mapping) {
    refuse(value, path,
           fmt::format("expected a mapping with keys {}; got {}", join(known), describe(value)));
  }
  for (const ConfigEntry& entry : value.entries) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
    std::string near = suggestion(entry.key, known);
    if (const auto setting = near.empty() ? nearest_setting(entry.key, settings) : "";
        !setting.empty())
      near = fmt::format("; did you mean {}?", setting);
    refuse(entry.value, path,
           fmt::format("unknown key {}{} Known: {}", quote(entry.key), near.empty() ? "." : near,
                       join(known)));
  }
}

void refuse_value(const ConfigValue& value, const std::string& path, const std::string& expected,
                  std::string_view advice) {
  refuse(value, path, fmt::format("expected {}, got {}{}", expected, describe(value), advice));
}

std::string item_path(const std::string& list, std::size_t index) {
  return fmt::format("{}[{}]", list, index);
}

std::string expectation(const bool&, const AnyBool&) {
  return "true or false";
}

std::string expectation(const std::string&, const AnyText&) {
  return "a text";
}

std::string expectation(const std::vector<std::string>&, const AnyText&) {
  return "a list of texts";
}

std::string expectation(const std::string&, const PathText&) {
  return "a path";
}

std::string expectation(const std::string&, const OneOf& rule) {
  return (rule.names.size() > 1 ? "one of " : "") + join(rule.names);
}

template <Number T>
std::string expectation(const T&, const NumberRule& rule) {
  return fmt::format("a {}number{}", std::is_integral_v<T> ? "whole " : "", rule.words);
}

template <Number T>
std::string expectation(const std::vector<T>&, const NumberRule& rule) {
  return fmt::format("a list like [1, 28, 28], each {}", expectation(T{}, rule));
}

void read_value(const ConfigValue& value, const std::string& path, bool& destination,
                const AnyBool& rule) {
  const std::string* text = plain_text(value);
  const std::string word = text != nullptr ? lower_case(*text) : "";
  if (word == "true" || word == "yes" || word == "on") {
    destination = true;
  } else if (word == "false" || word == "no" || word == "off") {
    destination = false;
  } else {
    refuse_value(value, path, expectation(destination, rule), advice_on_quotes(value));
  }
}

void read_value(const ConfigValue& value, const std::string& path, std::string& destination,
                const AnyText& rule) {
  if (value.kind != ConfigValue::Kind::scalar)
    refuse_value(value, path, expectation(destination, rule));
  destination = value.text;
}

void read_value(const ConfigValue& value, const std::string& path, std::string& destination,
                const PathText& rule) {
  if (value.kind != ConfigValue::Kind::scalar)
    refuse_value(value, path, expectation(destination, rule));
  destination = expand_path(value.text, fmt::format("{}: {}", value.origin, path));
}

void read_value(const ConfigValue& value, const std::string& path, std::string& destination,
                const OneOf& rule) {
  const std::string word = value.kind == ConfigValue::Kind::scalar ? lower_case(value.text) : "";
  auto known = rule.names;
  known.insert(known.end(), rule.further.begin(), rule.further.end());
  const auto found = std::ranges::find_if(
      known, [&](const std::string& name) { return lower_case(name) == word; });
  if (found == known.end())
    refuse_value(value, path, expectation(destination, rule), suggestion(word, known));
  destination = *found;
}

template <Number T>
void read_value(const ConfigValue& value, const std::string& path, T& destination,
                const NumberRule& rule) {
  const std::string* text = plain_text(value);
  const std::optional<T> number = text != nullptr ? parse_number<T>(*text) : std::nullopt;
  const bool is_large = number ? static_cast<long double>(*number) > rule.greatest
                               : text != nullptr && is_too_large<T>(*text);
  if (is_large) {
    refuse_value(value, path, expectation(destination, rule),
                 fmt::format("; the greatest is {}", greatest_text<T>(rule)));
  }
  if (!number || !rule.accepts(static_cast<long double>(*number)))
    refuse_value(value, path, expectation(destination, rule), advice_on_quotes(value));
  destination = *number;
}

template std::string expectation(const int&, const NumberRule&);
template void read_value(const ConfigValue&, const std::string&, int&, const NumberRule&);
template std::string expectation(const int64_t&, const NumberRule&);
template void read_value(const ConfigValue&, const std::string&, int64_t&, const NumberRule&);
template std::string expectation(const uint64_t&, const NumberRule&);
template void read_value(const ConfigValue&, const std::string&, uint64_t&, const NumberRule&);
template std::string expectation(const double&, const NumberRule&);
template void read_value(const ConfigValue&, const std::string&, double&, const NumberRule&);
template std::string expectation(const std::vector<int64_t>&, const NumberRule&);
template std::string expectation(const std::vector<double>&, const NumberRule&);

std::string SectionReader::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void SectionReader::refuse_no_list(const ConfigValue& value, const std::string& path,
                                   const std::vector<std::string>& keys) {
  refuse(
      value, path,
      fmt::format("expected a list of mappings with keys {}; got {}", join(keys), describe(value)));
}

bool is_taken_back(const ConfigValue& value) {
  return value.kind == ConfigValue::Kind::nothing && is_from_command_line(value);
}

void SectionReader::refuse_missing(const ConfigValue& where, std::string_view key,
                                   std::string_view expected) const {
  refuse(where, path_of(key),
         fmt::format("this key is required and missing; expected {}", expected));
}

ConfigValue TreeWriter::nothing(std::string_view meaning) {
  ConfigValue value;
  value.comment = meaning;
  return value;
}

ConfigValue TreeWriter::tree_of(bool value) {
  return scalar_value(value ? "true" : "false");
}

ConfigValue TreeWriter::tree_of(const std::string& text) {
  auto value = scalar_value(text);
  value.is_quoted = true;
  return value;
}

template <Number T>
ConfigValue TreeWriter::tree_of(T value) {
  return scalar_value(fmt::format("{}", value));
}

template ConfigValue TreeWriter::tree_of(int);
template ConfigValue TreeWriter::tree_of(int64_t);
template ConfigValue TreeWriter::tree_of(uint64_t);
template ConfigValue TreeWriter::tree_of(double);

void TreeWriter::add(std::string_view key, ConfigValue value) {
  tree_.entries.push_back({std::string(key), std::move(value)});
}

}  // namespace kolo
