#include "settings/tree_writer.h"

#include <utility>

#include <fmt/format.h>

namespace kolo {

namespace {

ConfigValue scalar(std::string text) {
  ConfigValue value;
  value.kind = ConfigValue::Kind::scalar;
  value.text = std::move(text);
  return value;
}

}  // namespace

ConfigValue TreeWriter::nothing(std::string_view meaning) {
  ConfigValue value;
  value.comment = meaning;
  return value;
}

ConfigValue TreeWriter::tree_of(bool value) {
  return scalar(value ? "true" : "false");
}

ConfigValue TreeWriter::tree_of(const std::string& text) {
  auto value = scalar(text);
  value.is_quoted = true;
  return value;
}

template <Number T>
ConfigValue TreeWriter::tree_of(T value) {
  return scalar(fmt::format("{}", value));
}

template ConfigValue TreeWriter::tree_of(int);
template ConfigValue TreeWriter::tree_of(int64_t);
template ConfigValue TreeWriter::tree_of(uint64_t);
template ConfigValue TreeWriter::tree_of(double);

void TreeWriter::add(std::string_view key, ConfigValue value) {
  tree_.entries.push_back({std::string(key), std::move(value)});
}

}  // namespace kolo
