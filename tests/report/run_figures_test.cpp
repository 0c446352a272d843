#include <random>

#include "kolo/report/figure.h"
#include "report/records.h"
#include "support/matchers.h"

namespace kolo::testing {
namespace {

using ::testing::DoubleNear;
using ::testing::NanSensitiveDoubleEq;

std::vector<Figure> all_figures(const std::vector<RunRecord>& runs) {
  return testing::all_figures(run_figures(runs));
}

std::vector<std::string> ids_of(const std::vector<Figure>& figures) {
  std::vector<std::string> ids;
  for (const auto& figure : figures) ids.push_back(figure.id);
  return ids;
}

std::vector<RunRecord> two_runs() {
  return {run_named("first", {epoch_curve("loss", "training", {3, 2, 1}),
                              epoch_curve("loss", "validation", {4, 3, 2}),
                              epoch_curve("accuracy", "validation", {.5, .75, .7}),
                              epoch_curve("epoch_seconds", "", {5, 5, 5})}),
          run_named("second", {epoch_curve("loss", "validation", {5, 1}, 20, 60, 9000),
                               epoch_curve("accuracy", "validation", {.6, .9}, 20, 60, 9000)})};
}

TEST(RunFigures, SeveralRunsAreComparedByTheirValidation) {
  auto runs = two_runs();
  const auto error = figure_named(all_figures(runs), "validation-error");
  EXPECT_TRUE(error.y_logarithmic);
  ASSERT_THAT(error.series, SizeIs(2)) << "validation alone";
  EXPECT_EQ(error.series[0].name, "first");
  EXPECT_THAT(error.series[0].y,
              ElementsAre(DoubleNear(50, 1e-9), DoubleNear(25, 1e-9), DoubleNear(30, 1e-9)));
  for (auto& run : runs)
    std::erase_if(run.curves, [](const Curve& curve) { return curve.quantity == "accuracy"; });
  const auto figures = all_figures(runs);
  EXPECT_THAT(figure_named(figures, "validation-loss").series[0].y, ElementsAre(4, 3, 2));
  EXPECT_THAT(ids_of(figures), Not(Contains("validation-error")));
  EXPECT_THAT(ids_of(all_figures({runs[0]})), Not(Contains("validation-loss")));
}

TEST(RunFigures, ValidationIsSolidAndTrainingDashed) {
  const auto figures = all_figures({two_runs()[0]});
  const auto& loss = figure_named(figures, "loss").series;
  ASSERT_THAT(loss, SizeIs(2));
  EXPECT_EQ(loss[0].name, "training");
  EXPECT_TRUE(loss[0].dashed);
  EXPECT_THAT(loss[0].y, ElementsAre(3, 2, 1));
  EXPECT_EQ(loss[1].name, "validation");
  EXPECT_FALSE(loss[1].dashed);
  EXPECT_THAT(figure_named(figures, "accuracy").series[0].y, ElementsAre(50, 75, 70));
  EXPECT_EQ(figure_named(figures, "accuracy").y_label, "accuracy, %");
}

TEST(RunFigures, StandAgainstEveryAxis) {
  const auto figure = figure_named(all_figures(two_runs()), "loss");
  const auto places = [&](CurveAxis axis, std::size_t number) {
    return figure.series.at(number).x_on.at(axis);
  };
  EXPECT_THAT(places(CurveAxis::epoch, 0), ElementsAre(1, 2, 3));
  EXPECT_THAT(places(CurveAxis::step, 2), ElementsAre(20, 40));
  EXPECT_THAT(places(CurveAxis::relative, 0), ElementsAre(5, 10, 15));
  EXPECT_THAT(places(CurveAxis::relative, 2), ElementsAre(60, 120));
  EXPECT_THAT(places(CurveAxis::wall, 2), ElementsAre(9060, 9120));
  EXPECT_EQ(figure.x_labels.at(CurveAxis::relative), "seconds since the start");
  EXPECT_EQ(figure.series[2].colour, 1) << "a run has the colour of its number";
}

TEST(RunFigures, GapsStayGaps) {
  auto run = run_named("run", {epoch_curve("loss", "validation", {3, not_measured, 1})});
  run.curves[0].points[2].step = not_measured;
  const auto series = figure_named(all_figures({run}), "loss").series[0];
  EXPECT_THAT(series.y, ElementsAre(3, NanSensitiveDoubleEq(not_measured), 1));
  EXPECT_THAT(series.x_on.at(CurveAxis::step),
              ElementsAre(10, 20, NanSensitiveDoubleEq(not_measured)));
}

TEST(RunFigures, BeginBeforeTraining) {
  auto run = run_named("run", {epoch_curve("loss", "validation", {3, 1})});
  auto& points = run.curves[0].points;
  points.insert(points.begin(), {90, 0, 0, 1000, 0});
  const auto figure = figure_named(all_figures({run}), "loss");
  EXPECT_THAT(figure.series[0].y, ElementsAre(90, 3, 1));
  EXPECT_THAT(figure.series[0].x_on.at(CurveAxis::step), ElementsAre(0, 10, 20));
  EXPECT_TRUE(figure.y_logarithmic) << "it spans two powers of ten";
  points.erase(points.begin());
  EXPECT_FALSE(figure_named(all_figures({run}), "loss").y_logarithmic);
}

TEST(RunFigures, StepCurvesAreFiguresOfTheirOwn) {
  auto run = two_runs()[0];
  Curve steps{"loss", "training", true, {}};
  for (int i = 0; i < 9; ++i) steps.points.push_back({9. - i, i / 3., 1. * i, 1000. + i});
  run.curves.push_back(steps);
  run.curves.push_back(epoch_curve("learning_rate", "", {1, 1, 1}));
  Curve rate{"learning_rate", "", true, steps.points};
  run.curves.push_back(rate);
  const auto figures = all_figures({run});
  const auto& by_step = figure_named(figures, "loss-by-step").series;
  ASSERT_THAT(by_step, SizeIs(1));
  EXPECT_FALSE(by_step[0].dashed);
  EXPECT_FALSE(by_step[0].marks);
  EXPECT_TRUE(figure_named(figures, "loss-by-step").smoothed);
  EXPECT_FALSE(figure_named(figures, "loss").smoothed);
  EXPECT_FALSE(figure_named(figures, "learning-rate").smoothed) << "it has no noise";
  EXPECT_THAT(figure_named(figures, "loss").series, SizeIs(2));
  const auto& rates = figure_named(figures, "learning-rate").series;
  ASSERT_THAT(rates, SizeIs(1)) << "the finest only";
  EXPECT_THAT(rates[0].y, SizeIs(9));
}

TEST(RunFigures, ThinningKeepsWhatStandsOut) {
  std::mt19937 random(7);
  for (const std::size_t count : {3000U, 12345U}) {
    std::vector<CurvePoint> points;
    for (std::size_t i = 0; i < count; ++i)
      points.push_back({std::uniform_real_distribution<>(0, 1)(random), 0, 1. * i, 0});
    const auto highest = random() % count, lowest = random() % count;
    points[highest].value = 50;
    points[lowest].value = -50;
    points[(lowest + 17) % count].value = not_measured;
    const auto kept = thinned(points, 1000);
    EXPECT_LE(kept.size(), 1000U);
    EXPECT_GT(kept.size(), 900U);
    EXPECT_TRUE(std::ranges::is_sorted(kept, {}, &CurvePoint::step));
    const auto [smallest, largest] = std::ranges::minmax(kept, {}, &CurvePoint::value);
    EXPECT_EQ(smallest.step, points[lowest].step);
    EXPECT_EQ(largest.step, points[highest].step);
  }
  EXPECT_THAT(thinned({}, 10), IsEmpty());
}

TEST(RunFigures, ShowWhereTheTimeOfAStepGoes) {
  auto run = run_named("run", {epoch_curve("epoch_seconds", "", {2, 4}, 10)});
  run.results.step_seconds = .3;
  run.results.data_wait_seconds = .05;
  run.results.exposed_communication_seconds = .1;
  const auto figure = figure_named(all_figures({run}), "step-time");
  EXPECT_EQ(figure.kind, Figure::Kind::stacked_bars);
  EXPECT_THAT(figure.categories, ElementsAre("run"));
  ASSERT_THAT(figure.series, SizeIs(3));
  EXPECT_THAT(figure.series[0].y, ElementsAre(DoubleNear(150, 1e-9))) << "what is left";
  EXPECT_THAT(figure.series[1].y, ElementsAre(DoubleNear(50, 1e-9)));
  EXPECT_THAT(figure.series[2].y, ElementsAre(DoubleNear(100, 1e-9)));
}

TEST(RunFigures, KnowWhichAxesThereAre) {
  RunRecord run = run_named("run", {{"loss", "", true, {{1, not_measured, 7, not_measured}}}});
  EXPECT_THAT(known_axes(std::vector{run}), ElementsAre(CurveAxis::step));
  EXPECT_THAT(known_axes(two_runs()), SizeIs(4));
  EXPECT_THAT(run_figures({}), IsEmpty());
}

TEST(RunFigures, RunsOfOneNameGetDifferentOnes) {
  std::vector<RunRecord> runs(5);
  const char* const sources[] = {"/a/x/run", "/b/x/run", "/c/other", "/d/twice", "/d/twice"};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].source = sources[i];
    runs[i].name = runs[i].source.filename();
  }
  make_names_distinct(runs);
  std::vector<std::string> names;
  for (const auto& run : runs) names.push_back(run.name);
  EXPECT_THAT(names, ElementsAre("/a/x/run", "/b/x/run", "other", "/d/twice", "/d/twice (2)"));
}

}  // namespace
}  // namespace kolo::testing
