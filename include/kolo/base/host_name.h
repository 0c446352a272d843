#pragma once

#include <string>

namespace kolo {

// Of this machine; "localhost" where it has none.
[[nodiscard]] std::string host_name();

}  // namespace kolo
