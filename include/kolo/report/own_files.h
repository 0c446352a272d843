#pragma once

#include <filesystem>

// What kolo wrote earlier, told by how the file begins: it may be replaced without asking. A file
// that can't be read is none of them.
namespace kolo {

// A page of kolo report.
[[nodiscard]] bool is_report_page(const std::filesystem::path& file);

// A figure (draw_figures()), or a picture of a timeline (timeline_picture()).
[[nodiscard]] bool is_drawing(const std::filesystem::path& file);

// A timeline of all ranks (merge_timelines()), or of one.
[[nodiscard]] bool is_timeline(const std::filesystem::path& file);

}  // namespace kolo
