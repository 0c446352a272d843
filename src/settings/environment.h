#pragma once

#include <string>
#include <string_view>

namespace kolo {

// Replaces $NAME and ${NAME} by environment variables, $$ by a dollar, and then a leading ~ (alone
// or before a slash) by $HOME. Throws InputError, which begins with `where`, for a variable that is
// not set and for a $ before anything else.
[[nodiscard]] std::string expand_path(std::string_view text, std::string_view where);

// The text that expand_path() turns into `path`, or into another name of the same file where that
// begins with ~.
[[nodiscard]] std::string escape_path(std::string_view path);

}  // namespace kolo
