#pragma once

#include <string>

#include "config/value.h"

namespace kolo {

// Sets the key of "training.batch_size=32" in a tree of values, the value read as YAML. Sections on
// the way are made; whether the keys exist is for the reader to say, which then names "command
// line" as their place. Throws InputError.
void apply_override(ConfigValue& root, const std::string& text);

[[nodiscard]] bool is_from_command_line(const ConfigValue& value);

// Sets a key to a text, whatever is in it.
void set_text(ConfigValue& root, const std::string& key, const std::string& text);

}  // namespace kolo
