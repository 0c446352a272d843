

#include "kolo/report/figure.h"
#include "kolo/report/results_table.h"
#include "report/records.h"
#include "report/studies.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using ::testing::DoubleNear;

Figure figure_named(const Study& study, const std::string& id) {
  return testing::figure_named(all_figures(study_figures(study)), id);
}

TEST(StudyFigures, ShowThroughputBesideTheIdeal) {
  const auto figure = figure_named(small_study(), "scaling-throughput");
  EXPECT_TRUE(figure.x_logarithmic && figure.y_logarithmic);
  ASSERT_THAT(figure.series, SizeIs(2));
  const auto& measured = figure.series[0];
  EXPECT_EQ(measured.name, "measured");
  EXPECT_THAT(measured.x, ElementsAre(1, 2));
  EXPECT_THAT(measured.y, ElementsAre(100, 180)) << "the mean of both combinations";
  EXPECT_THAT(measured.spread, ElementsAre(10, 10));
  EXPECT_FALSE(measured.dashed);
  const auto& ideal = figure.series[1];
  EXPECT_EQ(ideal.colour, ideal_colour);
  EXPECT_THAT(ideal.x, ElementsAre(1, 2));
  EXPECT_THAT(ideal.y, ElementsAre(100, 200));
}

TEST(StudyFigures, ShowEfficiencyBesideOneHundredPerCent) {
  const auto figure = figure_named(small_study(), "scaling-efficiency");
  EXPECT_THAT(figure.series[0].y, ElementsAre(100, 90));
  EXPECT_THAT(figure.series.back().y, Each(100));
}

TEST(StudyFigures, ShowTheCollapseOfLargeBatchesAndItsCure) {
  const auto figure = figure_named(small_study(), "scaling-accuracy");
  ASSERT_THAT(figure.series, SizeIs(2));
  EXPECT_EQ(figure.series[0].name, "linear, no warm-up");
  EXPECT_THAT(figure.series[0].y, ElementsAre(90, 10));
  EXPECT_EQ(figure.series[1].name, "linear, warm-up of 3 epochs");
  EXPECT_THAT(figure.series[1].y, ElementsAre(90, 90));
}

TEST(StudyFigures, ShowErrorsOnALogarithmicAxis) {
  const auto figure = figure_named(small_study(), "scaling-error");
  EXPECT_TRUE(figure.x_logarithmic && figure.y_logarithmic);
  ASSERT_THAT(figure.series, SizeIs(2));
  EXPECT_THAT(figure.series[0].y, ElementsAre(DoubleNear(10, 1e-9), DoubleNear(90, 1e-9)));
}

TEST(StudyFigures, ShowWhereTheTimeOfAStepGoes) {
  const auto figure = figure_named(small_study(), "scaling-step-time");
  EXPECT_THAT(figure.categories, ElementsAre("1", "2"));
  ASSERT_THAT(figure.series, SizeIs(3));
  EXPECT_THAT(figure.series[0].y, ElementsAre(DoubleNear(90, 1e-9), DoubleNear(70, 1e-9)));
  EXPECT_THAT(figure.series[2].y, ElementsAre(0, 20));
}

// Up to four ranks that share samples; the memory of four was not measured.
Study shared_study() {
  Study study{.name = "A study", .configuration = "configs/a.yaml", .scaling = "strong"};
  study.parallel = "spatial";
  study.cores = 4;
  for (const int ranks : {1, 2, 4}) {
    auto point = study_point(ranks, 0, StudyPointState::done, 100 * ranks);
    point.spatial = {ranks, 1, 1};
    point.kept_bytes = (16 << 20) / ranks;
    if (ranks < 4) point.results.peak_memory_bytes = (100 << 20) + (16 << 20) / ranks;
    study.points.push_back(point);
  }
  return study;
}

TEST(StudyFigures, ShowMemoryWhereRanksShareSamples) {
  const auto figure = figure_named(shared_study(), "scaling-memory");
  ASSERT_THAT(figure.series, SizeIs(2));
  EXPECT_EQ(figure.series[0].name, "measured");
  EXPECT_THAT(figure.series[0].x, ElementsAre(1, 2));
  EXPECT_THAT(figure.series[0].y, ElementsAre(116, 108));
  EXPECT_EQ(figure.series[1].name, "kept for backward, by formula");
  EXPECT_THAT(figure.series[1].y, ElementsAre(16, 8, 4));
  EXPECT_THROW((void)figure_named(small_study(), "scaling-memory"), std::runtime_error);
}

TEST(StudyFigures, OfNothingAreNone) {
  EXPECT_THAT(study_figures(Study{}), IsEmpty());
  Study study;
  study.points.resize(2);
  EXPECT_THAT(study_figures(study), IsEmpty());
}

TEST(StudyResults, HaveARowAPoint) {
  const auto table = study_results(small_study());
  ASSERT_THAT(table.rows, SizeIs(5));
  const auto titles = titles_of(table);
  EXPECT_THAT(titles, Contains("efficiency"));
  EXPECT_THAT(titles, Contains("nodes"));
  for (const auto& row : table.rows) EXPECT_EQ(row.cells.size(), table.columns.size());
  const auto cell = [&](std::size_t row, const std::string& title) {
    return table.rows[row]
        .cells[std::size_t(std::ranges::find(titles, title) - titles.begin())]
        .text;
  };
  EXPECT_EQ(cell(1, "samples/s"), "180 ± 10.0");
  EXPECT_EQ(cell(1, "exposed, ms"), "20");
  EXPECT_EQ(cell(1, "accuracy"), "10.00 %");
  EXPECT_EQ(cell(4, "state"), "failed: rank 3 ended with signal 9");
  EXPECT_EQ(cell(4, "efficiency"), "");
  EXPECT_EQ(table.rows[4].mark, ResultsTable::Mark::failed);
}

TEST(StudyResults, LeaveOutWhatIsTheSameInAllRows) {
  auto study = small_study();
  study.points.resize(2);  // without warm-up, done, on one node
  const auto titles = titles_of(study_results(study));
  EXPECT_THAT(titles, Not(AnyOf(Contains("warm-up"), Contains("nodes"), Contains("state"))));
  EXPECT_THAT(titles, Contains("ranks"));
  study.points[1].warmup_epochs = 3;
  EXPECT_EQ(study_results(study).columns[2].title, "warm-up");
}

TEST(StudyResults, SayHowSamplesAreCutAndWhatThatKeeps) {
  const auto text = to_text(study_results(shared_study()));
  EXPECT_TRUE(says(text, {"All ranks share each sample", "[2,1,1]", "108 MiB", "8.00 MiB"}));
  EXPECT_FALSE(says(text, {"batch/rank"}));
  EXPECT_FALSE(says(to_text(study_results(small_study())), {"kept"}));
}

TEST(StudyResults, SayWhereRanksShareCores) {
  auto study = small_study();
  study.cores = 2;
  EXPECT_FALSE(says(study_results(study).note, {"share"}));
  study.cores = 1;
  EXPECT_TRUE(says(study_results(study).note, {"More than 1 rank share this machine's cores"}));
}

TEST(ResultsText, LinesUp) {
  ResultsTable table{.title = "", .columns = {{"name"}, {"rate", true}}, .note = "So."};
  table.rows.push_back({{{"one"}, {"5 ± 1"}}});
  table.rows.push_back({{{"three"}, {"12 ± 10"}}});
  table.rows.push_back({{{"none"}, {""}}});
  EXPECT_EQ(to_text(table),
            "name      rate\n"
            "one      5 ± 1\n"
            "three  12 ± 10\n"
            "none\n"
            "\nSo.\n");
}

}  // namespace
}  // namespace kolo::testing
