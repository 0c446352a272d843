// Figures drawn by gnuplot.
#include "kolo/report/draw_figures.h"

#include <cstdlib>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/report/run_figures.h"
#include "kolo/report/study_figures.h"
#include "report/records.h"
#include "report/studies.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Every kind of figure there is.
std::vector<Figure> many_figures() {
  const std::vector runs = {
      run_named("first", {epoch_curve("loss", "validation", {3, not_measured, 1, 2}),
                          epoch_curve("loss", "training", {3.5, 2, 1, .5}),
                          epoch_curve("epoch_seconds", "", {5, 5}),
                          epoch_curve("data_wait_seconds", "", {1, 1})}),
      run_named("second",
                {epoch_curve("accuracy", "validation", {.3}),
                 epoch_curve("nothing", "", {not_measured}), epoch_curve("constant", "", {7, 7})})};
  std::vector<Figure> figures;
  for (const CurveAxis axis : all_axes) {
    for (auto& group : run_figures(runs, {axis, {}})) {
      for (auto& figure : group.figures) {
        figure.id = fmt::format("{}-{}", figure.id, axis_name(axis));
        figures.push_back(figure);
      }
    }
  }
  for (auto& group : study_figures(small_study()))
    std::ranges::move(group.figures, std::back_inserter(figures));
  return figures;
}

Figure figure_named(const std::string& name) {
  Figure figure{.id = "a", .title = name, .x_label = name, .y_label = name};
  FigureSeries series{.name = name, .x = {1, 2}, .y = {3, 4}};
  figure.series = {series, series};
  return figure;
}

class DrawFigures : public ::testing::Test {
 protected:
  TemporaryFolder folder;
};

TEST_F(DrawFigures, EveryOneAsSvg) {
  const auto figures = many_figures();
  ASSERT_GE(figures.size(), 20U);
  draw_figures(figures, FigureFormat::svg, folder / "new/folder");
  for (const auto& figure : figures) {
    const auto svg = read_text_file(folder / fmt::format("new/folder/{}.svg", figure.id));
    EXPECT_THAT(svg, AllOf(StartsWith("<?xml"), HasSubstr("<svg "), EndsWith("</svg>\n\n")))
        << figure.id;
    EXPECT_THAT(svg, HasSubstr(figure.title.substr(0, 6))) << figure.id;
  }
}

TEST_F(DrawFigures, AsPng) {
  const auto picture = draw_figure(figure_named("a"), FigureFormat::png);
  EXPECT_THAT(picture, StartsWith("\x89PNG"));
}

TEST_F(DrawFigures, TextIsDrawnAndNeverExecuted) {
  const auto touched = (folder / "touched").string();
  const std::string names[] = {fmt::format("`touch {}`", touched),
                               fmt::format("'; system('touch {}'); set title '", touched),
                               fmt::format("a'\nsystem 'touch {}'\n'", touched),
                               fmt::format("\" . system(\"touch {}\") . \"", touched),
                               fmt::format("END\nsystem 'touch {}'", touched),
                               "@macro $data a_b^c {/Bold x} <script>&amp; \x01\x7f \\"};
  for (const auto& name : names) {
    auto bars = figure_named(name);
    bars.kind = Figure::Kind::stacked_bars;
    bars.categories = {name, name};
    for (const auto& figure : {figure_named(name), bars}) {
      const auto svg = draw_figure(figure, FigureFormat::svg);
      EXPECT_THAT(svg, Not(HasSubstr("<script"))) << name;
      EXPECT_THAT(svg, EndsWith("</svg>\n\n")) << name;
    }
    EXPECT_FALSE(std::filesystem::exists(touched)) << name;
  }
  const auto svg = draw_figure(figure_named("a_b^c {/Bold x} <i> & it's"), FigureFormat::svg);
  EXPECT_NE(svg.find("a_b^c {/Bold x} &lt;i> &amp; it's"), std::string::npos);
}

TEST(RequireGnuplot, NamesThePackage) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  const auto message = message_of<InputError>(require_gnuplot);
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_THAT(message, HasSubstr("gnuplot-nox"));
}

}  // namespace
}  // namespace kolo::testing
