#pragma once

#include <string>
#include <string_view>

#include "config/value.h"

namespace kolo {

inline constexpr std::string_view command_line = "command line";

// Sets the key of "training.batch_size=32" in a tree of values, the value read as YAML. Sections on
// the way are made; whether the keys exist is for the reader to say, which then names `place`, the
// command line or one of its options. Throws InputError.
void apply_override(ConfigValue& root, const std::string& text,
                    std::string_view place = command_line);

[[nodiscard]] bool is_from_command_line(const ConfigValue& value);

// Sets a key to a text, whatever is in it.
void set_text(ConfigValue& root, const std::string& key, const std::string& text);

}  // namespace kolo
