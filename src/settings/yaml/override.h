#pragma once

#include <string>
#include <string_view>

#include "settings/known_settings.h"
#include "settings/value.h"

namespace kolo {

// Sets the key of "training.batch_size=32" in a tree of values, the value read as YAML. Sections on
// the way are made; whether the keys exist is for the reader to say, which then names `place`, the
// command line or one of its options. Throws InputError, which suggests one of `settings`.
void apply_override(ConfigValue& root, const std::string& text, const KnownSettings& settings,
                    std::string_view place = command_line);

// Sets a key to a text, whatever is in it.
void set_text(ConfigValue& root, const std::string& key, const std::string& text);

}  // namespace kolo
