#pragma once

#include <filesystem>
#include <string>

#include "settings/value.h"

namespace kolo {

// Reads a file of one YAML document whose top level is a mapping. Aliases and merge keys
// (https://yaml.org/type/merge.html) are expanded. Throws InputError that begins with
// FILE:LINE:COLUMN for malformed YAML and FILE:LINE for a repeated key, a key that is not a word, a
// tag, a merge key of something else than mappings, or aliases that grow without bound.
[[nodiscard]] ConfigValue read_yaml_file(const std::filesystem::path& file);

// Reads one value in YAML; `place` stands for FILE:LINE in messages and in the value.
[[nodiscard]] ConfigValue read_yaml_text(const std::string& text, const std::string& place);

}  // namespace kolo
