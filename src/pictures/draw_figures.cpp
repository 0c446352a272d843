#include "kolo/pictures/draw_figures.h"

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/report/own_files.h"
#include "pictures/gnuplot.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

fs::path file_of(const Figure& figure, FigureFormat format, const fs::path& folder) {
  return folder / (figure.id + (format == FigureFormat::svg ? ".svg" : ".png"));
}

}  // namespace

std::string draw_figure(const Figure& figure, FigureFormat format) {
  return run_gnuplot(gnuplot_script(figure, format), figure.id, format);
}

void require_replaceable(std::span<const Figure> figures, FigureFormat format,
                         const fs::path& folder) {
  for (const auto& figure : figures) {
    const auto file = file_of(figure, format, folder);
    std::error_code error;
    if (!fs::exists(file, error) || is_drawing(file)) continue;
    throw InputError(
        fmt::format("figures: {} is there and was not drawn by kolo; it would be lost: choose "
                    "another folder, or remove it",
                    file.string()));
  }
}

void draw_figures(std::span<const Figure> figures, FigureFormat format, const fs::path& folder) {
  require_replaceable(figures, format, folder);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw Error(fmt::format("figures: cannot make {}: {}", folder.string(), error.message()));
  for (const auto& figure : figures)
    write_file_atomically(file_of(figure, format, folder), draw_figure(figure, format));
}

}  // namespace kolo
