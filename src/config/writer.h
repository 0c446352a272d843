#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/environment.h"
#include "config/section.h"

namespace YAML {
class Emitter;
}

namespace kolo {

// Writes structs as YAML that SectionReader reads back to the same. A value that is unset is null,
// with what that means behind it.
class YamlWriter {
 public:
  YamlWriter();
  ~YamlWriter();

  template <typename T, typename Rule>
  void operator()(std::string_view key, const T& value, const Rule&,
                  Presence = Presence::optional) {
    write_field(key, value);
  }
  template <typename T, typename Rule>
  void operator()(std::string_view key, const std::optional<T>& value, const Rule&, Unset unset) {
    if (value)
      write_field(key, *value);
    else
      write_unset(key, unset.meaning);
  }
  void operator()(std::string_view key, const std::string& path, PathText) {
    write_field(key, escape_path(path));
  }
  template <ConfigStruct T>
  void operator()(std::string_view key, T& section) {
    begin_section(key);
    visit(*this, section);
    end_section();
  }

  template <ConfigStruct T>
  void operator()(std::string_view key, std::vector<T>& sections) {
    write_key(key);
    begin_list();
    for (T& section : sections) {
      begin_mapping();
      visit(*this, section);
      end_section();
    }
    end_list();
  }

  // Once, at the end.
  [[nodiscard]] std::string finish();

 private:
  template <typename T>
  void write_field(std::string_view key, const T& value) {
    write_key(key);
    write(value);
  }
  template <typename T>
  void write_field(std::string_view key, const std::optional<T>& value) {
    if (value)
      write_field(key, *value);
    else
      write_unset(key, "unset");
  }
  void write_unset(std::string_view key, std::string_view meaning);
  template <Number T>
  void write(const std::vector<T>& values) {
    begin_list();
    for (const T value : values) write(value);
    end_list();
  }
  template <Number T>
  void write(T value);
  void write(const std::vector<std::string>& values);
  void write(bool value);
  void write(const std::string& value);
  void write_key(std::string_view key);
  void begin_section(std::string_view key);
  void begin_mapping();
  void end_section();
  void begin_list();
  void end_list();

  std::unique_ptr<YAML::Emitter> emitter_;
  int lists_ = 0;  // that are open
};

}  // namespace kolo
