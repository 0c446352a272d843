#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <fmt/format.h>

namespace kolo {

// "4, 128, 128, 128"
template <typename Integer>
[[nodiscard]] std::string shape_text(std::span<const Integer> shape) {
  std::string text;
  for (const auto dimension : shape) {
    if (!text.empty()) text += ", ";
    text += fmt::to_string(dimension);
  }
  return text;
}

}  // namespace kolo
