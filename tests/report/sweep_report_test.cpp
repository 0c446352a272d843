#include <cmath>

#include "kolo/base/error.h"
#include "kolo/report/report.h"
#include "report/records.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using ::testing::DoubleNear;

Sweep example_sweep() {
  Sweep sweep;
  sweep.name = "digits";
  sweep.configuration = "digits.yaml";
  sweep.space = {"optimizer.lr=log:0.01..0.1", "model.act=relu,gelu"};
  const char* const rates[] = {"0.02", "0.09", "0.05"};
  for (int i = 0; i < 3; ++i) {
    Trial trial;
    trial.number = i + 1;
    trial.settings = {std::string("optimizer.lr=") + rates[i],
                      std::string("model.act=") + (i == 1 ? "gelu" : "relu")};
    trial.folder = "trials/00" + std::to_string(i + 1);
    trial.state = TrialState::done;
    trial.best = 0.5 + 0.1 * i;
    trial.best_epoch = 2;
    trial.epochs = 2;
    trial.seconds = 3;
    sweep.trials.push_back(trial);
  }
  return sweep;
}

std::vector<RunRecord> example_runs() {
  std::vector<RunRecord> runs;
  for (int i = 0; i < 3; ++i)
    runs.push_back(run_named("trial " + std::to_string(i + 1),
                             {epoch_curve("accuracy", "validation", {0.4, 0.5 + 0.1 * i}),
                              epoch_curve("loss", "training", {2, 1})}));
  return runs;
}

Figure sweep_figure(const Sweep& sweep, const std::string& id) {
  return figure_named(all_figures(sweep_figures(sweep, example_runs())), id);
}

TEST(SweepReport, TheBestOfAllCurvesLiesOnTop) {
  auto sweep = example_sweep();
  const auto figure = sweep_figure(sweep, "sweep-metric");
  ASSERT_THAT(figure.series, SizeIs(3));
  EXPECT_EQ(figure.series[2].name, "trial 3 (the best)");
  EXPECT_THAT(figure.series[2].y, ElementsAre(40, 70));
  EXPECT_EQ(figure.series[2].colour, 2) << "a colour for each";
  EXPECT_EQ(figure.series[0].colour, 0);
  for (int more = 0; more < palette_size; ++more) {
    sweep.trials.push_back(sweep.trials[0]);
    sweep.trials.back().settings[0] = "optimizer.lr=" + std::to_string(more);
  }
  const auto many = sweep_figure(sweep, "sweep-metric");
  EXPECT_EQ(many.series.back().colour, 0);
  EXPECT_EQ(many.series[0].colour, ideal_colour);
}

TEST(SweepReport, ResultsStandAgainstEachKey) {
  const auto rate = sweep_figure(example_sweep(), "sweep-key-1");
  EXPECT_TRUE(rate.x_logarithmic);
  EXPECT_EQ(rate.title, "Best validation accuracy against learning rate");
  ASSERT_THAT(rate.series, SizeIs(2));
  EXPECT_THAT(rate.series[0].x, ElementsAre(0.02, 0.09));
  EXPECT_FALSE(rate.series[0].joined);
  EXPECT_EQ(rate.series[0].y[0], 50);
  EXPECT_THAT(rate.series[1].x, ElementsAre(0.05)) << "the best";
  const auto word = sweep_figure(example_sweep(), "sweep-key-2");
  EXPECT_FALSE(word.x_logarithmic);
  EXPECT_EQ(word.x_label, "act");
  EXPECT_THAT(word.categories, ElementsAre("relu", "gelu"));
  EXPECT_THAT(word.series[0].x, ElementsAre(0, 1));
}

TEST(SweepReport, SeedsAreMeansAndDeviations) {
  Sweep sweep;
  for (const char* const rate : {"0.1", "0.01"}) {
    for (const char* const seed : {"1", "2"}) {
      Trial trial;
      trial.settings = {std::string("optimizer.lr=") + rate, std::string("seed=") + seed};
      trial.best = 0.8 + 0.02 * static_cast<double>(sweep.trials.size());
      sweep.trials.push_back(trial);
    }
  }
  const auto groups = all_figures(sweep_figures(sweep, {}));
  ASSERT_THAT(groups, SizeIs(1)) << "none against the seed";
  const auto& [worse, best] = std::tie(groups[0].series[0], groups[0].series[1]);
  EXPECT_THAT(worse.x, ElementsAre(0.1));
  EXPECT_THAT(worse.y, ElementsAre(DoubleNear(81, 1e-9)));
  EXPECT_THAT(worse.spread, ElementsAre(DoubleNear(std::sqrt(2), 1e-9)));
  EXPECT_THAT(best.y, ElementsAre(DoubleNear(85, 1e-9)));
  const auto table = seed_results(sweep);
  EXPECT_THAT(titles_of(table), ElementsAre("learning rate", "accuracy", "trials"));
  EXPECT_THAT(texts_of(table.rows[0]), ElementsAre("0.01", "85.00 % ± 1.41 %", "2"));
  EXPECT_TRUE(seed_results(example_sweep()).rows.empty());
  for (const std::size_t failed : {0, 1, 2}) sweep.trials[failed].best = not_measured;
  const auto rest = seed_results(sweep);
  EXPECT_EQ(rest.rows[0].cells[1].text, "86.00 %") << "one trial has no deviation";
  EXPECT_EQ(rest.rows[1].cells[1].text, "");
}

// A grid of batches and ways to scale the rate; the seed is the same for all.
Sweep grid_of_ways() {
  Sweep sweep;
  sweep.name = "ways";
  for (const char* const batch : {"32", "256"}) {
    for (const char* const way : {"none", "linear"}) {
      Trial trial;
      trial.number = static_cast<int>(sweep.trials.size()) + 1;
      trial.settings = {std::string("training.batch_size=") + batch,
                        std::string("optimizer.lr_scaling=") + way, "seed=1"};
      trial.best = 1 - 0.01 * trial.number;
      sweep.trials.push_back(trial);
    }
  }
  return sweep;
}

TEST(SweepReport, AGridHasALineForEachWay) {
  auto sweep = grid_of_ways();
  const auto figure = sweep_figure(sweep, "sweep-key-1");
  EXPECT_TRUE(figure.x_logarithmic);
  ASSERT_THAT(figure.series, SizeIs(2));
  EXPECT_EQ(figure.series[0].name, "learning rate scaling none")
      << "without the seed, which all have";
  EXPECT_THAT(figure.series[0].x, ElementsAre(32, 256));
  EXPECT_THAT(figure.series[0].y, ElementsAre(DoubleNear(99, 1e-9), DoubleNear(97, 1e-9)));
  EXPECT_EQ(figure.series[1].name, "learning rate scaling linear");
  EXPECT_THAT(figure.series[1].y, ElementsAre(DoubleNear(98, 1e-9), DoubleNear(96, 1e-9)));
  const auto has_lines = [&](const std::string& id) {
    return sweep_figure(sweep, id).series[0].joined;
  };
  EXPECT_FALSE(has_lines("sweep-key-2")) << "words";
  EXPECT_EQ(sweep_figure(sweep, "sweep-key-2").series[1].name, "batch size 256");
  sweep.random = 4;
  EXPECT_FALSE(has_lines("sweep-key-1"));
  sweep.random = 0;
  sweep.trials.pop_back();
  EXPECT_FALSE(has_lines("sweep-key-1")) << "a way with one batch is no line";
}

TEST(SweepReport, TheTableHasTheBestFirst) {
  auto sweep = example_sweep();
  sweep.trials[0].state = TrialState::failed;
  sweep.trials[0].problem = "status 1: it broke. Usual reasons: many";
  const auto table = sweep_results(sweep);
  ASSERT_THAT(table.rows, SizeIs(3));
  EXPECT_EQ(table.rows[0].cells[0].text, "3");
  EXPECT_TRUE(table.rows[0].cells[3].is_best);
  EXPECT_EQ(table.rows[2].mark, ResultsTable::Mark::failed);
  EXPECT_EQ(table.rows[2].cells.back().text, "failed: status 1: it broke");
}

TEST(SweepReport, ATargetStandsBesideTheLastEpochs) {
  auto sweep = example_sweep();
  sweep.target = 0.949;
  for (auto& trial : sweep.trials) trial.last = 0.9;
  EXPECT_TRUE(sweep_results(sweep).note.ends_with(
      "Last epochs: mean 90.00 %, standard deviation 0.00 %. Target: 94.90 %."))
      << sweep_results(sweep).note;
}

TEST(SweepReport, APageOfAFolder) {
  const TemporaryFolder folder;
  example_sweep().write(folder / "sweep.json");
  const std::filesystem::path paths[] = {folder.path()};
  const auto report = read_report(paths);
  EXPECT_EQ(report.title, "digits, a sweep");
  EXPECT_THAT(report.trials, SizeIs(3)) << "also what has not begun";
  EXPECT_TRUE(says(report_page(report_data(report, "now")),
                   {"A sweep of digits.yaml, 3 trials.", "sweep-key-1"}));
  const std::filesystem::path two[] = {folder.path(), folder / "sweep.json"};
  EXPECT_THAT([&] { (void)read_report(two); },
              ThrowsMessage<InputError>(HasSubstr("second sweep")));
}

}  // namespace
}  // namespace kolo::testing
