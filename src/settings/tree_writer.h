#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "settings/section.h"
#include "settings/value.h"

namespace kolo {

// Writes structs as a tree of values that SectionReader reads back to the same. A value that is
// unset is nothing, with what that means for a comment.
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

  [[nodiscard]] const ConfigValue& tree() const { return tree_; }

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
