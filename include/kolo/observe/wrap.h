#pragma once

#include <string>
#include <string_view>

namespace kolo {

// Text for a terminal of `width` columns (0: none, the text stays as it is): lines that are longer
// are broken between words, never within one or within a number and its unit ("60 000", "91.3 %",
// "22.4 s") where that can be avoided, and go on indented by `indent`. What is escaped for colour
// takes no room.
[[nodiscard]] std::string wrap(std::string_view text, int width, int indent = 2);

}  // namespace kolo
