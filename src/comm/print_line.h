#pragma once

#include <string_view>

namespace kolo {

// "kolo: ..." on stderr, in one write, so that lines of several ranks don't mix. Where stderr is
// gone nobody reads.
void print_line(std::string_view message);

}  // namespace kolo
