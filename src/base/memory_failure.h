#pragma once

#include <exception>
#include <new>
#include <string_view>

namespace kolo {

// Tells whether an exception is for want of memory. LibTorch's has no type of its own, and says
// otherwise where the number of bytes can't be counted.
[[nodiscard]] inline bool wants_memory(const std::exception& error) {
  const std::string_view text = error.what();
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         text.find("can't allocate memory") != std::string_view::npos ||
         text.find("calculation overflowed") != std::string_view::npos ||
         text.find("multiplication overflow") != std::string_view::npos;
}

}  // namespace kolo
