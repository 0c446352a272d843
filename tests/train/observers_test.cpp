#include <filesystem>
#include <limits>
#include <sstream>

#include "kolo/train/checkpoint_observer.h"
#include "kolo/train/recorders.h"
#include "support/event_encoder.h"
#include "support/temporary_folder.h"
#include "train/training_fixture.h"

namespace kolo::testing {
namespace {

namespace events = testing::events;

std::vector<std::int64_t> saved_steps(CheckpointSaving saving) {
  const TemporaryFolder folder;
  CheckpointStore store({folder / "checkpoints", 9});
  SmallTraining training(Communicator::solo(), {});  // two epochs of 13 steps
  std::vector<std::int64_t> steps;
  saving.asynchronous = false;
  CheckpointObserver observer(
      training.trainer(), &store, std::move(saving),
      {.on_saved = [&](const auto&) { steps.push_back(training.trainer().state().step); }});
  training.trainer().add_observer(observer);
  (void)training.trainer().run();
  EXPECT_EQ(store.load_newest([](const auto&) {})->step, 26);
  return steps;
}

TEST(ProgressReporter, ShowsEpochsAndValidations) {
  std::ostringstream screen;
  ProgressBar bar(screen, {.plain_interval_seconds = 0});
  std::ostringstream console;
  RunLog log({.console = &console, .width = 80});
  ProgressReporter reporter(bar, log, 1, "images");
  SmallTraining training(Communicator::solo(), {.epochs = 1});
  training.trainer().add_observer(reporter);
  (void)training.trainer().run();
  const auto text = screen.str();
  const auto before = text.find("validation"), epoch = text.find("epoch 1/1");
  ASSERT_NE(before, std::string::npos) << text;
  ASSERT_NE(epoch, std::string::npos) << text;
  EXPECT_LT(before, epoch);
  EXPECT_NE(text.find("validation", epoch), std::string::npos) << text;
  EXPECT_NE(text.find("4/4"), std::string::npos) << text;
  EXPECT_THAT(console.str(),
              ::testing::ContainsRegex("epoch 1/1  loss [0-9.]+, accuracy [0-9.]+ %\n  validation "
                                       "loss [0-9.]+, accuracy [0-9.]+ % .best.  [0-9.]+ s  "))
      << "two lines of a terminal";
}

TEST(CheckpointObserver, FollowsItsSchedule) {
  EXPECT_EQ(saved_steps({.every_epochs = 1}), (std::vector<std::int64_t>{13, 26}));
  EXPECT_THAT(saved_steps({.every_epochs = 0, .every_steps = 10}),
              ::testing::IsSupersetOf({10, 20, 26}));
}

TEST(RunRecorder, WritesEpochsStepsAndASummary) {
  const TemporaryFolder folder;
  SmallTraining training(Communicator::solo(), {});
  RunRecorder recorder(History(1), folder.path(), 5);
  training.trainer().add_observer(recorder);
  (void)training.trainer().run();
  const auto history = History::read(folder / "history.json");
  ASSERT_EQ(history.epochs().size(), 3U);
  EXPECT_EQ(history.epochs()[0].step, 0);
  EXPECT_GT(history.epochs()[0].val_loss, 0);
  EXPECT_TRUE(std::isnan(history.epochs()[0].loss))
      << "nothing was trained on before the first step";
  EXPECT_EQ(history.epochs()[2].step, 26);
  EXPECT_EQ(history.steps().size(), 5U);
  EXPECT_EQ(history.summary().at("steps"), 26);
  EXPECT_GT(history.summary().at("best_val_accuracy"), 0);
}

// Step of the newest value among the folder's event files.
std::int64_t newest_loss_in(const TemporaryFolder& folder) {
  std::int64_t newest = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (!entry.path().filename().string().starts_with("events")) continue;
    for (const auto& scalar : events::scalars_in(entry.path()))
      if (scalar.tag == "step/loss") newest = std::max(newest, scalar.step);
  }
  return newest;
}

TEST(RunRecorder, BringStepsOfTheEpochUnderWayToTheDiskInTime) {
  for (const double unwritten : {0., 1e9}) {
    const TemporaryFolder folder;
    SmallTraining training(Communicator::solo(), {});  // two epochs of 13 steps
    RunRecorder recorder(History(1), folder.path(), 1, unwritten);
    std::int64_t steps = 0;
    std::optional<EpochUnderWay> under_way;
    AtSteps looks_on([&](const StepReport& report) {
      const auto step = report.state.step;
      const auto history = History::read(folder / "history.json");
      if (step == 20) under_way = history.epoch_under_way();
      const auto at_epochs_end = step <= 13 ? 0 : 13;
      const auto expected = unwritten == 0 ? step : at_epochs_end;
      EXPECT_EQ(history.steps().empty() ? 0 : history.steps().back().step, expected);
      EXPECT_EQ(newest_loss_in(folder), expected);
      ++steps;
    });
    training.trainer().add_observer(recorder);
    training.trainer().add_observer(looks_on);
    (void)training.trainer().run();
    EXPECT_EQ(steps, 26);
    if (unwritten > 0) continue;
    ASSERT_TRUE(under_way.has_value());
    EXPECT_EQ(under_way->epoch, 2);
    EXPECT_EQ(under_way->last_step, 26);
    EXPECT_FALSE(History::read(folder / "history.json").epoch_under_way()) << "it is done";
  }
}

TEST(ThinRecordInterval, LetsARunHaveNoMoreThan500Records) {
  EXPECT_EQ(thin_record_interval(1, 0), 1);
  EXPECT_EQ(thin_record_interval(5, 100), 1);
  EXPECT_EQ(thin_record_interval(1, 501), 2);
  EXPECT_EQ(thin_record_interval(90, 40000), 7200);
  for (const std::int64_t steps : {1, 499, 999, 1001, 12345}) {
    EXPECT_LE(3 * steps / thin_record_interval(3, steps), 500) << steps;
    EXPECT_GE(3 * steps / thin_record_interval(3, steps), std::min<std::int64_t>(3 * steps, 250));
  }
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_GT(thin_record_interval(most, most), most / 3) << "more steps than an integer can count";
}

}  // namespace
}  // namespace kolo::testing
