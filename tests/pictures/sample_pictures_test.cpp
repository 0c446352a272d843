// Images and fields with what a network makes of them, drawn by gnuplot.
#include "kolo/pictures/sample_pictures.h"

#include <limits>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/report/own_files.h"
#include "support/errors.h"

namespace kolo::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Panel panel(Panel::Scale scale, std::int64_t rows, std::int64_t columns) {
  const auto planes = scale == Panel::Scale::colour ? 3 : 1;
  Panel made{.caption = "cat (97 %)", .scale = scale, .rows = rows, .columns = columns};
  for (std::int64_t i = 0; i < rows * columns * planes; ++i)
    made.values.push_back(static_cast<float>(i % 7) / 6.f);
  return made;
}

PanelSheet sheet_of(std::vector<Panel> panels) {
  return {.id = "sheet", .title = "A sheet", .panels_per_row = 2, .panels = std::move(panels)};
}

TEST(SamplePictures, ScalesOfAllKindsBecomeSvgAndPng) {
  auto mistake = panel(Panel::Scale::colour, 8, 8);
  mistake.caption = "dog, is 'cat' {now} 100 %";
  mistake.stands_out = true;
  const auto sheet =
      sheet_of({panel(Panel::Scale::grey, 28, 28), mistake, Panel{},
                panel(Panel::Scale::field, 5, 9), panel(Panel::Scale::difference, 300, 200)});
  const auto svg = draw_panels(sheet, FigureFormat::svg);
  EXPECT_THAT(svg, AllOf(HasSubstr("<svg"), HasSubstr(std::string(svg_mark)), HasSubstr("A sheet"),
                         HasSubstr("cat (97 %)"), HasSubstr("{now}")));
  EXPECT_THAT(draw_panels(sheet, FigureFormat::png), StartsWith("\x89PNG"));
}

// What is one value everywhere, or none, has a shade too.
TEST(SamplePictures, ConstantsAndValuesThatAreNotFiniteAreDrawn) {
  auto constant = panel(Panel::Scale::field, 4, 4);
  constant.values.assign(16, 3.f);
  constant.low = constant.high = 3;
  auto endless = panel(Panel::Scale::grey, 4, 4);
  endless.values.assign(16, std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(draw_panels(sheet_of({constant, endless}), FigureFormat::svg), HasSubstr("<svg"));
}

TEST(SamplePictures, IncompletePanelsAreNamed) {
  auto broken = panel(Panel::Scale::colour, 4, 4);
  broken.values.pop_back();
  EXPECT_THAT(message_of<Error>([&] { (void)draw_panels(sheet_of({broken}), FigureFormat::svg); }),
              AllOf(HasSubstr("cat (97 %)"), HasSubstr("47 values"), HasSubstr("48")));
  EXPECT_THAT(message_of<Error>([&] { (void)draw_panels(sheet_of({}), FigureFormat::svg); }),
              HasSubstr("nothing to draw"));
}

TEST(SamplePictures, CountsAreWrittenInSmallTables) {
  CountTable table{
      .id = "confusion", .title = "A table", .names = {"cat", "dog"}, .counts = {90, 7, 0, 81}};
  const auto svg = draw_table(table, FigureFormat::svg);
  for (const auto* const text : {">90<", ">7<", ">81<", "cat", "dog", "taken for"})
    EXPECT_THAT(svg, HasSubstr(text));
  EXPECT_THAT(svg, Not(HasSubstr(">0<")));

  table.names.assign(60, "class");
  table.counts.assign(3600, 12345);
  EXPECT_THAT(draw_table(table, FigureFormat::svg),
              AllOf(HasSubstr("<svg"), Not(HasSubstr("12345"))));

  table.counts.pop_back();
  EXPECT_THAT(message_of<Error>([&] { (void)draw_table(table, FigureFormat::svg); }),
              HasSubstr("3599 counts"));
}

}  // namespace
}  // namespace kolo::testing
