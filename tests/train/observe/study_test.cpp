#include "kolo/train/observe/study.h"

#include <cmath>

#include "kolo/base/error.h"
#include "support/matchers.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

StudyPoint measured(int ranks, double samples_per_second, const std::string& lr_scaling = "linear",
                    double warmup = 0) {
  StudyPoint point;
  point.ranks = ranks;
  point.batch_size = 64;
  point.lr_scaling = lr_scaling;
  point.warmup_epochs = warmup;
  point.state = StudyPointState::done;
  point.folder = "runs/some, \"quoted\"";
  point.results.samples_per_second = samples_per_second;
  return point;
}

Study example() {
  Study study;
  study.name = "digits";
  study.configuration = "digits.yaml small";
  study.scaling = "weak";
  study.settings = {"training.n_epochs=3"};
  study.threads = 3;
  study.cores = 2;
  study.points = {measured(2, 200), measured(4, 300), measured(1, 110, "none", 3)};
  study.points[1].problem = "ended with status 1";
  return study;
}

TEST(Study, ComesBackFromItsFile) {
  const TemporaryFolder folder;
  example().write(folder / "study.json");
  const auto read = Study::read(folder / "study.json");
  EXPECT_EQ(read.to_json(), example().to_json());
  EXPECT_EQ(read.threads, 3);
  ASSERT_EQ(read.points.size(), 3U);
  EXPECT_EQ(read.points[1].results.samples_per_second, 300);
  EXPECT_TRUE(std::isnan(read.points[1].results.loss));
  EXPECT_EQ(read.points[2].warmup_epochs, 3);
  EXPECT_EQ(read.points[2].state, StudyPointState::done);
}

TEST(Study, SamplesThatRanksShareComeBackToo) {
  auto study = example();
  study.parallel = "spatial";
  study.points[0].spatial = {2, 1, 1};
  study.points[0].kept_bytes = 1e6;
  study.points[0].results.peak_memory_bytes = 2e6;
  const auto read = Study::from_json(study.to_json());
  EXPECT_EQ(read.parallel, "spatial");
  EXPECT_EQ(cut_of(read.points[0]), "[2,1,1]");
  EXPECT_EQ(cut_of(read.points[1]), "");
  EXPECT_EQ(read.points[0].kept_bytes, 1e6);
  EXPECT_EQ(read.points[0].results.peak_memory_bytes, 2e6);
  auto broken = study.to_json();
  broken["points"][0]["spatial"] = "half";
  EXPECT_THAT([&] { (void)Study::from_json(broken); },
              ThrowsMessage<Error>(HasSubstr("study: malformed")));
}

TEST(Study, RefusesWhatItDidNotWrite) {
  const TemporaryFolder folder;
  const auto reading = [&](const std::string& text) {
    return [path = folder.write("study.json", text)] { (void)Study::read(path); };
  };
  EXPECT_THAT(reading("nonsense"), ThrowsMessage<Error>(HasSubstr("expected JSON")));
  EXPECT_THAT(reading("{}"), ThrowsMessage<Error>(HasSubstr("name")));
  auto json = example().to_json();
  json["points"][0]["state"] = "asleep";
  EXPECT_THAT(reading(json.dump()), ThrowsMessage<Error>(HasSubstr("\"asleep\"")));
}

TEST(Study, EfficiencyIsRelativeToTheFewestRanksOfTheSameLine) {
  Study study = example();
  fill_in_efficiency(study);
  EXPECT_DOUBLE_EQ(study.points[0].efficiency, 1);
  EXPECT_DOUBLE_EQ(study.points[1].efficiency, 0.75);  // 300 of 2 x 200
  EXPECT_DOUBLE_EQ(study.points[2].efficiency, 1);     // another line
}

TEST(Study, AFailedRunHasNoEfficiency) {
  Study study = example();
  study.points[1].results = {};
  fill_in_efficiency(study);
  EXPECT_TRUE(std::isnan(study.points[1].efficiency));
}

TEST(StudyResults, SpeedWithoutTheFirstEpochWhereThereAreEnough) {
  History history(2);
  history.add(EpochRecord{.epoch = 0, .val_accuracy = 0.95});  // not trained: not a result
  const double seconds[] = {30, 10, 14};
  for (std::int64_t epoch = 1; epoch <= 3; ++epoch) {
    const double taken = seconds[epoch - 1];
    history.add(EpochRecord{.epoch = epoch,
                            .step = 100 * epoch,
                            .loss = 1.0 / static_cast<double>(epoch),
                            .val_loss = epoch == 2 ? 0.1 : 0.5,
                            .val_accuracy = epoch == 2 ? 0.9 : 0.8,
                            .seconds = taken,
                            .samples_per_second = 1400 / taken,
                            .data_wait_seconds = 1,
                            .exposed_communication_seconds = 2});
  }
  const auto results = results_of(history);
  EXPECT_EQ(results.epochs, 3);
  EXPECT_DOUBLE_EQ(results.epoch_seconds, 12);
  EXPECT_DOUBLE_EQ(results.epoch_seconds_deviation, std::sqrt(8.0));
  EXPECT_DOUBLE_EQ(results.samples_per_second, 2 * 1400. / (10 + 14))
      << "not the mean of the rates";
  EXPECT_DOUBLE_EQ(results.step_seconds, 0.12);
  EXPECT_DOUBLE_EQ(results.data_wait_seconds, 0.01);
  EXPECT_DOUBLE_EQ(results.exposed_communication_seconds, 0.02);
  EXPECT_DOUBLE_EQ(results.val_accuracy, 0.8);
  EXPECT_DOUBLE_EQ(results.best_val_accuracy, 0.9);
  EXPECT_DOUBLE_EQ(results.best_val_loss, 0.1);
  EXPECT_DOUBLE_EQ(results.best_loss, 1.0 / 3);
  EXPECT_TRUE(std::isnan(results.best_accuracy));
}

TEST(StudyResults, AShorterLastEpochChangesNoStep) {
  History history(2);
  for (const std::int64_t epoch : {1, 2, 3}) {
    const std::int64_t steps = epoch == 3 ? 50 : 100;
    history.add(EpochRecord{.epoch = epoch,
                            .step = 100 * (epoch - 1) + steps,
                            .seconds = .1 * static_cast<double>(steps),
                            .data_wait_seconds = .01 * static_cast<double>(steps)});
  }
  EXPECT_DOUBLE_EQ(results_of(history).step_seconds, .1);
  EXPECT_DOUBLE_EQ(results_of(history).data_wait_seconds, .01);
  EXPECT_TRUE(std::isnan(results_of(history).exposed_communication_seconds));
}

TEST(StudyResults, OfARunThatHasNoEpochYet) {
  EXPECT_TRUE(std::isnan(results_of(History(2)).samples_per_second));
}

}  // namespace
}  // namespace kolo::testing
