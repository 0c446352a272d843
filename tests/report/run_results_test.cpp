
#include "kolo/report/results_table.h"
#include "report/records.h"
#include "support/matchers.h"

namespace kolo::testing {
namespace {

TEST(RunResults, TellTheBestOfEachRunAndOfAll) {
  auto first = run_named("first", {epoch_curve("accuracy", "validation", {.5, .9, .8}),
                                   epoch_curve("loss", "validation", {3, 1, 2}),
                                   epoch_curve("epoch_seconds", "", {4, 6, 5})});
  first.results.epoch_seconds = 5;
  first.results.samples_per_second = 145.4;
  first.parameters = 1234567;
  first.ranks = 2;
  auto second = run_named("second", {epoch_curve("accuracy", "validation", {.95})});
  second.is_finished = false;
  const std::vector runs{first, second};
  const auto table = run_results(runs);
  EXPECT_THAT(titles_of(table), ElementsAre("run", "best validation accuracy",
                                            "best validation loss", "time per epoch", "samples/s",
                                            "ranks", "parameters", "epochs", "time to 90 %"));
  ASSERT_THAT(table.rows, SizeIs(2));
  EXPECT_THAT(texts_of(table.rows[0]), ElementsAre("first", "90.00 %", "1.0000", "5 s", "145", "2",
                                                   "1 234 567", "3", "10.0 s"));
  EXPECT_THAT(texts_of(table.rows[1]),
              ElementsAre("second (not finished)", "95.00 %", "", "", "", "", "", "1", "5.0 s"));
  EXPECT_FALSE(table.rows[0].cells[1].is_best);
  EXPECT_TRUE(table.rows[1].cells[1].is_best);
  EXPECT_FALSE(table.rows[0].cells[2].is_best) << "there is no other";
  EXPECT_EQ(table.rows[1].run, 1);
}

// A validation curve as kolo writes it, beginning before the first step.
Curve from_untrained(const std::string& quantity, const std::vector<double>& values) {
  auto curve = epoch_curve(quantity, "validation", values);
  for (auto& point : curve.points) {
    point.epoch -= 1;
    point.step -= 10;
    point.time -= 5;
  }
  return curve;
}

TEST(RunResults, AnUntrainedNetworkIsNotTheBest) {
  const std::vector runs{run_named("trained", {from_untrained("accuracy", {.6, .5, .4}),
                                               from_untrained("loss", {.1, 3, 2})}),
                         run_named("begun", {from_untrained("accuracy", {.6})})};
  const auto table = run_results(runs);
  EXPECT_THAT(texts_of(table.rows[0]), ElementsAre("trained", "50.00 %", "2.0000", "2", "10.0 s"));
  EXPECT_EQ(table.rows[1].cells[1].text, "60.00 %") << "there is nothing else yet";
}

TEST(RunResults, ATargetIsWhatMoreThanHalfOfTheRunsReach) {
  const auto of = [](const std::string& name, const std::vector<double>& losses) {
    return run_named(name, {epoch_curve("loss", "validation", losses)});
  };
  const std::vector runs{of("best", {.5, .1}), of("middle", {.9, .31234}), of("diverged", {9, 8})};
  const auto table = run_results(runs);
  EXPECT_EQ(table.columns.back().title, "time to loss 0.313");
  EXPECT_EQ(table.rows[0].cells.back().text, "10.0 s");
  EXPECT_EQ(table.rows[1].cells.back().text, "10.0 s");
  EXPECT_EQ(table.rows[2].cells.back().text, "not reached");

  ResultsTable own{.title = "",
                   .columns = {{"trial"}, {"state"}},
                   .rows = {{{{"1"}, {"done"}}}, {{{"2"}, {"failed"}}}}};
  const std::vector<const RunRecord*> of_rows{runs.data(), nullptr};
  add_time_to_target(own, of_rows, "loss", .5);
  EXPECT_THAT(titles_of(own), ElementsAre("trial", "time to loss 0.5", "state"));
  EXPECT_THAT(texts_of(own.rows[0]), ElementsAre("1", "5.0 s", "done"));
  EXPECT_THAT(texts_of(own.rows[1]), ElementsAre("2", "", "failed"));
}

TEST(DifferingSettings, AreThoseThatAreNotTheSameInAllRuns) {
  auto first = run_named("first", {}), second = run_named("second", {}),
       other = run_named("other", {});
  first.settings = {{"optimizer.lr", "0.1"}, {"data.name", "mnist"}, {"output_dir", "a"}};
  second.settings = {{"optimizer.lr", "0.2"},
                     {"data.name", "mnist"},
                     {"output_dir", "b"},
                     {"training.n_epochs", "3"}};
  const std::vector runs{first, second, other};
  const auto table = differing_settings(runs);
  EXPECT_THAT(titles_of(table), ElementsAre("setting", "first", "second"));
  EXPECT_EQ(table.folded, "setting");
  ASSERT_THAT(table.rows, SizeIs(2));
  EXPECT_THAT(texts_of(table.rows[0]), ElementsAre("optimizer.lr", "0.1", "0.2"));
  EXPECT_THAT(texts_of(table.rows[1]), ElementsAre("training.n_epochs", "", "3"));
  EXPECT_THAT(differing_settings(std::vector{first}).rows, IsEmpty());
  EXPECT_THAT(differing_settings({}).rows, IsEmpty());
}

}  // namespace
}  // namespace kolo::testing
