#include "config/writer.h"

#include <array>

#include <fmt/format.h>
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

}  // namespace

YamlWriter::YamlWriter() : emitter_(std::make_unique<YAML::Emitter>()) {
  *emitter_ << YAML::BeginMap;
}

YamlWriter::~YamlWriter() = default;

std::string YamlWriter::finish() {
  *emitter_ << YAML::EndMap;
  return std::string(emitter_->c_str()) + "\n";
}

// The shortest decimal that reads back to the same number.
template <Number T>
void YamlWriter::write(T value) {
  *emitter_ << fmt::format("{}", value);
}

template void YamlWriter::write(int);
template void YamlWriter::write(int64_t);
template void YamlWriter::write(uint64_t);
template void YamlWriter::write(double);

void YamlWriter::write(bool value) {
  *emitter_ << (value ? "true" : "false");
}

void YamlWriter::write(const std::string& value) {
  if (!is_plain_word(value)) *emitter_ << YAML::DoubleQuoted;
  *emitter_ << value;
}

void YamlWriter::write(const std::vector<std::string>& values) {
  begin_list();
  for (const std::string& value : values) write(value);
  end_list();
}

void YamlWriter::write_key(std::string_view key) {
  *emitter_ << YAML::Key << std::string(key) << YAML::Value;
}

void YamlWriter::write_unset(std::string_view key, std::string_view meaning) {
  write_key(key);
  *emitter_ << YAML::LowerNull << YAML::Null;
  // In a list of mappings, which is one line, a comment would be the end of it.
  if (lists_ == 0) *emitter_ << YAML::Comment(std::string(meaning));
}

void YamlWriter::begin_section(std::string_view key) {
  write_key(key);
  begin_mapping();
}

void YamlWriter::begin_mapping() {
  *emitter_ << YAML::BeginMap;
}

void YamlWriter::end_section() {
  *emitter_ << YAML::EndMap;
}

void YamlWriter::begin_list() {
  ++lists_;
  *emitter_ << YAML::Flow << YAML::BeginSeq;
}

void YamlWriter::end_list() {
  --lists_;
  *emitter_ << YAML::EndSeq;
}

}  // namespace kolo
