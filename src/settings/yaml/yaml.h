#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "settings/value.h"

// Trees of values from and to YAML.
namespace kolo {

// Reads a file of one YAML document whose top level is a mapping. Aliases, merge keys
// (https://yaml.org/type/merge.html, but that mappings within mappings are merged as well) and
// `include: FILE` (a file or a list, relative to the one that names it, whose keys the mapping
// inherits as if merged; the last wins) are expanded. Throws InputError that begins with
// FILE:LINE:COLUMN for malformed YAML and FILE:LINE for a repeated key, a key that is not a word, a
// tag, a merge key of something else than mappings, aliases that grow without
// bound, and files that can't be read or include themselves.
[[nodiscard]] ConfigValue read_yaml_file(const std::filesystem::path& file);

// The same from a text, which includes no files; `source` stands for FILE.
[[nodiscard]] ConfigValue read_yaml_document(const std::string& text, const std::string& source);

// Reads one value in YAML; `place` stands for FILE:LINE in messages and in the value.
[[nodiscard]] ConfigValue read_yaml_text(const std::string& text, const std::string& place);

// A mapping as YAML that read_yaml_file() reads back to the same; lists stand in one line.
[[nodiscard]] std::string write_yaml(const ConfigValue& mapping);

// Sets the key of "training.batch_size=32" in a tree of values, the value read as YAML. Sections on
// the way are made; whether the keys exist is for the reader to say, which then names `place`, the
// command line or one of its options. Throws InputError, which suggests one of `settings`.
void apply_override(ConfigValue& root, const std::string& text, const KnownSettings& settings,
                    std::string_view place = command_line);

// Sets a key to a text, whatever is in it.
void set_text(ConfigValue& root, const std::string& key, const std::string& text);

}  // namespace kolo
