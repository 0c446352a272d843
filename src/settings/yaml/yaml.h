#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "settings/value.h"

// Trees of values from and to YAML.
namespace kolo {

// Reads a file of one YAML document, a mapping. Aliases and merge keys (also into mappings within
// mappings) are expanded. InputError begins with FILE:LINE:COLUMN for malformed YAML, with
// FILE:LINE for repeated or odd keys, tags and aliases without bound.
[[nodiscard]] ConfigValue read_yaml_file(const std::filesystem::path& file);

// The same from a text; `source` stands for FILE.
[[nodiscard]] ConfigValue read_yaml_document(const std::string& text, const std::string& source);

// Reads one value in YAML; `origin` stands for FILE:LINE in messages and in the value.
[[nodiscard]] ConfigValue read_yaml_text(const std::string& text, const std::string& origin);

// A mapping as YAML that read_yaml_file() reads back to the same; lists stand in one line.
[[nodiscard]] std::string write_yaml(const ConfigValue& mapping);

// Sets the key of "training.batch_size=32" in a tree of values, the value read as YAML. Sections on
// the way are made; whether the keys exist is for the reader to say, which then names `origin`, the
// command line or one of its options. InputError for what is no key=value.
void apply_override(ConfigValue& root, const std::string& text,
                    std::string_view origin = command_line);

// Sets a key to a text, which is not read as YAML.
void set_text(ConfigValue& root, const std::string& key, const std::string& text);

}  // namespace kolo
