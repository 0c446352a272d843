#pragma once

#include <filesystem>
#include <string>
#include <string_view>

// What kolo wrote earlier, told by how the file begins: it may be replaced without asking. A file
// that can't be read is none of them.
namespace kolo {

// A page of kolo report.
[[nodiscard]] bool is_report_page(const std::filesystem::path& file);

// What drawings have in their first bytes, as a comment of SVG and a text of PNG.
inline constexpr std::string_view svg_mark = "<!-- drawn by kolo -->";
inline constexpr std::string_view png_mark{"Software\0kolo", 13};

// The picture with that mark before its first element.
[[nodiscard]] std::string marked_svg(std::string picture);

// A figure, or a picture of a timeline: what the room `pictures` draws.
[[nodiscard]] bool is_drawing(const std::filesystem::path& file);

// A timeline of all ranks (merge_timelines()), or of one.
[[nodiscard]] bool is_timeline(const std::filesystem::path& file);

}  // namespace kolo
