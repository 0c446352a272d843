#pragma once

#include <filesystem>
#include <string>
#include <string_view>

// Files that kolo wrote earlier, told by how the file begins: it may be replaced without asking. A
// file that can't be read is none of them.
namespace kolo {

// A page of kolo report.
[[nodiscard]] bool is_report_page(const std::filesystem::path& file);

// Mark in the first bytes of drawings, as a text of PNG.
inline constexpr std::string_view png_mark{"Software\0kolo", 13};

// A caption follows this in an international text of a PNG: a keyword, no compression, no language.
inline constexpr std::string_view png_caption_key{"Description\0\0\0\0\0", 16};

// Caption of a drawing's bytes; empty where there is none.
[[nodiscard]] std::string png_caption(std::string_view png);

// A picture of a sample (draw_picture()).
[[nodiscard]] bool is_drawing(const std::filesystem::path& file);

// A timeline of all ranks (merge_timelines()), or of one.
[[nodiscard]] bool is_timeline(const std::filesystem::path& file);

}  // namespace kolo
