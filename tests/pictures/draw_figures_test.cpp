// Figures drawn by gnuplot.
#include "kolo/pictures/draw_figures.h"

#include <cstdlib>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/report/figure.h"
#include "kolo/report/own_files.h"
#include "report/records.h"
#include "report/studies.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
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

TEST_F(DrawFigures, ReplacesItsOwnDrawingsAlone) {
  const std::vector figures{figure_named("a")};
  for (const auto format : {FigureFormat::svg, FigureFormat::png}) {
    const auto* const name = format == FigureFormat::svg ? "a.svg" : "a.png";
    draw_figures(figures, format, folder.path());
    EXPECT_TRUE(is_drawing(folder / name));
    draw_figures(figures, format, folder.path());
    folder.write(name, "somebody's");
    EXPECT_THAT(message_of<InputError>([&] { draw_figures(figures, format, folder.path()); }),
                AllOf(HasSubstr(name), HasSubstr("was not drawn by kolo")));
    EXPECT_EQ(read_text_file(folder / name), "somebody's");
  }
}

// What reads PNG sees a text chunk, whose sum is right.
TEST_F(DrawFigures, AMarkedPngIsStillOne) {
  const auto drawn = draw_figure(figure_named("a"), FigureFormat::png);
  const auto file = folder.write("a.png", drawn);
  const auto chunk = drawn.substr(8 + 25, 4 + 4 + 13 + 4);
  EXPECT_EQ(chunk.substr(4, 4), "tEXt");
  EXPECT_EQ(chunk.substr(8, 13), std::string("Software\0kolo", 13));
  EXPECT_EQ(chunk.substr(21), "\x81\x46\x03\xf6");
  EXPECT_TRUE(is_drawing(file));
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

// How often a text is drawn.
std::size_t drawn(const std::string& svg, const std::string& text) {
  std::size_t found = 0;
  for (auto at = svg.find(text); at != std::string::npos; at = svg.find(text, at + 1)) ++found;
  return found;
}

TEST_F(DrawFigures, NamesAreDrawnAsTheyAre) {
  for (const std::string name :
       {"lr0.1", "50% of 5%d %%", "a_b^c", "{x}", "it's \"5\"", "`1`", "back\\1n", "$1 @2 #3 ~4",
        "1.2.3.4-5/6", "M\u00fcller \u4e2d\u6587", "'''", "\"7"}) {
    auto bars = figure_named(name);
    bars.kind = Figure::Kind::stacked_bars;
    bars.categories = {name, name};
    EXPECT_EQ(drawn(draw_figure(figure_named(name), FigureFormat::svg), ">" + name + "<"), 5U)
        << name << ": the title, two axes, two lines";
    EXPECT_EQ(drawn(draw_figure(bars, FigureFormat::svg), ">" + name + "<"), 7U)
        << name << ": and two bars";
  }
  const auto svg = draw_figure(figure_named("not \xff UTF-8"), FigureFormat::svg);
  EXPECT_EQ(drawn(svg, ">not \xef\xbf\xbd UTF-8<"), 5U);
}

// The numbers along the axes, and whatever else is written.
std::vector<std::string> texts_of(const Figure& figure) {
  const auto svg = draw_figure(figure, FigureFormat::svg);
  std::vector<std::string> texts;
  for (auto at = svg.find("<text>"); at != std::string::npos; at = svg.find("<text>", at + 1)) {
    auto text = svg.substr(at + 6, svg.find("</text>", at) - at - 6);
    if (const auto end = text.rfind("\">"); end != std::string::npos) text.erase(0, end + 2);
    texts.push_back(text.substr(0, text.find('<')));
  }
  return texts;
}

Figure line(std::vector<double> x, std::vector<double> y) {
  Figure figure{.id = "a", .title = "title", .x_label = "epoch", .y_label = "y"};
  figure.series = {{.name = "a line", .x = std::move(x), .y = std::move(y), .spread = {}}};
  figure.series[0].marks = true;
  return figure;
}

TEST_F(DrawFigures, ASinglePointAndAConstantStandInTheMiddle) {
  const auto constant = texts_of(line({1, 2, 3, 4}, {.001, .001, .001, .001}));
  EXPECT_THAT(constant, IsSupersetOf({"0", "0.0005", "0.001", "0.002"}));
  EXPECT_THAT(constant, Not(Contains(HasSubstr("-"))));
  const auto single = texts_of(line({1}, {250}));
  EXPECT_THAT(single, AllOf(IsSupersetOf({"0", "1", "2", "500"}), Not(Contains("0.5"))));
  EXPECT_THAT(texts_of(line({1, 2}, {0, 0})), IsSupersetOf({"0", "1"}));
  EXPECT_THAT(texts_of(line({1, 2}, {-3, -3})), IsSupersetOf({"-6", "0"}));
}

// How many marks gnuplot drew.
std::size_t marks_in(const Figure& figure) {
  return drawn(draw_figure(figure, FigureFormat::svg), "xlink:href='#gpPt");
}

TEST_F(DrawFigures, APointThatNoLineReachesHasAMark) {
  const double gap = std::numeric_limits<double>::quiet_NaN();
  const auto without_marks = [](std::vector<double> y) {
    std::vector<double> x(y.size());
    std::iota(x.begin(), x.end(), 1);
    auto figure = line(x, std::move(y));
    figure.series[0].marks = false;
    return figure;
  };
  const auto none = marks_in(without_marks({1, 2, 3}));
  EXPECT_EQ(marks_in(without_marks({5})), none + 1);
  EXPECT_EQ(marks_in(without_marks({1, 2, gap, 3, gap, 4, 5, gap, 6})), none + 2);
}

TEST_F(DrawFigures, ALineIsNamedByAnOrdinaryOneHoweverWideItIs) {
  auto figure = line({1, 2}, {1, 2});
  figure.series.push_back(figure.series[0]);
  figure.series[1].name = "another";
  const auto narrow = [&] {
    return drawn(draw_figure(figure, FigureFormat::svg), "stroke-width=\"2.20\"");
  };
  const auto wide = [&] {
    return drawn(draw_figure(figure, FigureFormat::svg), "stroke-width=\"6.20\"");
  };
  const auto usual = narrow();
  EXPECT_EQ(wide(), 0U);
  figure.series[0].hidden_by = 1;
  EXPECT_GT(wide(), 0U);
  EXPECT_EQ(narrow(), usual);
}

TEST_F(DrawFigures, TicksAreRoundNumbersAndShort) {
  auto figure = line({41.4844, 63.2, 86.1}, {1234567, 2345678, 4345678});
  figure.x_label = "validation accuracy, %";
  EXPECT_THAT(texts_of(figure), IsSupersetOf({"40", "50", "90", "1 000 000", "4 000 000"}));
  figure.y_logarithmic = true;
  EXPECT_THAT(texts_of(figure), IsSupersetOf({"1 000 000", "2 000 000", "5 000 000"}));
  EXPECT_THAT(texts_of(line({1, 2}, {1e-5, 3e-5})), IsSupersetOf({"1e-5", "3e-5"}));
  // Times of the day, none of them twice.
  figure = line({1.7e9, 1.7e9 + 1}, {1, 2});
  figure.x_is_time = true;
  const auto times = texts_of(figure);
  EXPECT_EQ(std::ranges::count(times, "22:13:20"), 1);
  EXPECT_EQ(std::ranges::count(times, "22:13:21"), 1);
}

TEST_F(DrawFigures, DeviationsAreDrawnWhole) {
  auto figure = line({1, 2}, {100, 95});
  figure.y_label = "efficiency, %";
  figure.series[0].spread = {18, 4};
  EXPECT_THAT(texts_of(figure), IsSupersetOf({"80", "120"}));
  figure.series[0].spread = {};
  EXPECT_THAT(texts_of(figure), AllOf(Contains("100"), Not(Contains("101"))));
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
