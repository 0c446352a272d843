#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "kolo/report/figure.h"

namespace kolo {

enum class FigureFormat : std::uint8_t { svg, png };

// What gnuplot is told to draw: a whole script, with its data. Whatever stands in names and titles
// is drawn as it is and never executed. The picture goes to gnuplot's standard output.
[[nodiscard]] std::string gnuplot_script(const Figure& figure, FigureFormat format);

// InputError, naming the package, when there is no gnuplot in PATH.
void require_gnuplot();

// Draws a figure with the gnuplot in PATH. Returns the picture's bytes. Error: gnuplot failed, with
// what it said.
[[nodiscard]] std::string draw_figure(const Figure& figure, FigureFormat format);

// FOLDER/ID.svg or .png.
[[nodiscard]] std::filesystem::path picture_file(const std::filesystem::path& folder,
                                                 const std::string& id, FigureFormat format);

// InputError when the file is there and is no drawing of kolo's (is_drawing()): it would be lost.
void require_replaceable(const std::filesystem::path& picture);

// InputError when a file that one of these figures would replace is there and is no drawing of
// kolo's (is_drawing()).
void require_replaceable(std::span<const Figure> figures, FigureFormat format,
                         const std::filesystem::path& folder);

// FOLDER/ID.svg or .png for each figure, each written whole or not at all. Makes the folder. Only
// older drawings of kolo's are replaced: see require_replaceable().
void draw_figures(std::span<const Figure> figures, FigureFormat format,
                  const std::filesystem::path& folder);

}  // namespace kolo
