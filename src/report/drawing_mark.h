#pragma once

#include <string>
#include <string_view>

// By what kolo's drawings are known (see is_drawing()).
namespace kolo {

inline constexpr std::string_view svg_mark = "<!-- drawn by kolo -->";
inline constexpr std::string_view png_mark{"Software\0kolo", 13};

// The SVG with the mark before its first element, the PNG with it as a text chunk after its
// header.
[[nodiscard]] std::string marked_svg(std::string picture);
[[nodiscard]] std::string marked_png(std::string picture);

}  // namespace kolo
