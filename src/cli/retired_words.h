#pragma once

#include <string_view>

namespace kolo {

// Sentence for a command, or for an option of one ("train --noddp"), that kolo does not have any
// more or never had; empty for all others.
[[nodiscard]] std::string_view retired_word(std::string_view name);

}  // namespace kolo
