#include "kolo/pictures/draw_figures.h"

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/report/own_files.h"
#include "pictures/gnuplot.h"

namespace kolo {

namespace fs = std::filesystem;

fs::path picture_file(const fs::path& folder, const std::string& id, FigureFormat format) {
  return folder / (id + (format == FigureFormat::svg ? ".svg" : ".png"));
}

std::string draw_figure(const Figure& figure, FigureFormat format) {
  return run_gnuplot(gnuplot_script(figure, format), figure.id, format);
}

void require_replaceable(const fs::path& picture) {
  std::error_code error;
  if (!fs::exists(picture, error) || is_drawing(picture)) return;
  throw InputError(fmt::format(
      "figures: {} is there and was not drawn by kolo; it would be lost: choose another "
      "folder, or remove it",
      picture.string()));
}

void require_replaceable(std::span<const Figure> figures, FigureFormat format,
                         const fs::path& folder) {
  for (const auto& figure : figures) require_replaceable(picture_file(folder, figure.id, format));
}

void draw_figures(std::span<const Figure> figures, FigureFormat format, const fs::path& folder) {
  require_replaceable(figures, format, folder);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw Error(fmt::format("figures: cannot make {}: {}", folder.string(), error.message()));
  for (const auto& figure : figures)
    write_file_atomically(picture_file(folder, figure.id, format), draw_figure(figure, format));
}

}  // namespace kolo
