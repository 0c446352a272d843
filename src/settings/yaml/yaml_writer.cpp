#include "settings/yaml/yaml.h"

#include <array>
#include <string_view>

#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>

namespace kolo {

namespace {

// Words in plain letters that no YAML reader takes for something else (1.1 has yes, no, on, off, y,
// n and sexagesimal numbers).
bool is_plain_word(const std::string& text) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  static constexpr std::array<std::string_view, 9> reserved = {"y",   "n",    "yes",   "no",  "on",
                                                               "off", "true", "false", "null"};
  if (text.empty() || letters.find(text[0]) == std::string_view::npos) return false;
  std::string lower;
  for (const char letter : text) {
    const bool is_letter = letters.find(letter) != std::string_view::npos;
    const bool is_digit = letter >= '0' && letter <= '9';
    if (!is_letter && !is_digit && letter != '_' && letter != '-' && letter != '/' &&
        letter != '.') {
      return false;
    }
    lower += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  for (const auto word : reserved) {
    if (lower == word) return false;
  }
  return true;
}

void write_scalar(YAML::Emitter& emitter, const ConfigValue& value) {
  if (value.is_quoted && !is_plain_word(value.text)) emitter << YAML::DoubleQuoted;
  emitter << value.text;
}

void write(YAML::Emitter& emitter, const ConfigValue& value, bool is_in_list) {
  switch (value.kind) {
    case ConfigValue::Kind::nothing:
      emitter << YAML::LowerNull << YAML::Null;
      // In a list, which is one line, a comment would be the end of it.
      if (!is_in_list && !value.comment.empty()) emitter << YAML::Comment(value.comment);
      break;
    case ConfigValue::Kind::scalar:
      write_scalar(emitter, value);
      break;
    case ConfigValue::Kind::list:
      emitter << YAML::Flow << YAML::BeginSeq;
      for (const auto& item : value.items) write(emitter, item, true);
      emitter << YAML::EndSeq;
      break;
    case ConfigValue::Kind::mapping:
      emitter << YAML::BeginMap;
      for (const auto& entry : value.entries) {
        emitter << YAML::Key << entry.key << YAML::Value;
        write(emitter, entry.value, is_in_list);
      }
      emitter << YAML::EndMap;
      break;
  }
}

}  // namespace

std::string write_yaml(const ConfigValue& mapping) {
  YAML::Emitter emitter;
  write(emitter, mapping, false);
  return std::string(emitter.c_str()) + "\n";
}

}  // namespace kolo
