#pragma once

#include <string_view>

namespace kolo {

// Sentence for a command, or for an option of one ("train --noddp"), that earlier versions or the
// courses' scripts have and kolo has not: what to do instead. Empty for all others.
[[nodiscard]] std::string_view retired_word(std::string_view name);

}  // namespace kolo
