#include "kolo/train/observe/sweep.h"

#include <cmath>

#include "kolo/base/error.h"
#include "support/matchers.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

Sweep three_trials() {
  Sweep sweep;
  sweep.name = "digits";
  sweep.configuration = "digits.yaml small";
  sweep.space = {"optimizer.lr=0.1,0.2,0.3"};
  sweep.settings = {"training.n_epochs=3"};
  sweep.seed = 18446744073709551615U;
  sweep.ranks = 2;
  sweep.threads = 4;
  for (int number = 1; number <= 3; ++number) {
    Trial trial;
    trial.number = number;
    trial.settings = {"optimizer.lr=0." + std::to_string(number)};
    trial.folder = "trials/some, \"quoted\"";
    sweep.trials.push_back(trial);
  }
  auto& best = sweep.trials[1];
  best.state = TrialState::done;
  best.epochs = 3;
  best.best = 0.75;
  best.last = 0.7;
  best.best_epoch = 2;
  best.seconds = 1.5;
  sweep.trials[2].state = TrialState::failed;
  sweep.trials[2].failures = 2;
  sweep.trials[2].problem = "status 1: it broke";
  return sweep;
}

TEST(SweepRecord, ComesBackFromItsFile) {
  const TemporaryFolder folder;
  three_trials().write(folder / "sweep.json");
  const auto read = Sweep::read(folder / "sweep.json");
  EXPECT_EQ(read.to_json(), three_trials().to_json());
  EXPECT_EQ(read.seed, three_trials().seed);
  EXPECT_EQ(read.trials[1].best, 0.75);
  EXPECT_TRUE(std::isnan(read.trials[0].best));
  EXPECT_EQ(read.trials[2].state, TrialState::failed);
}

TEST(SweepRecord, ATargetStandsBesideMeanAndDeviationOfLastEpochs) {
  auto sweep = three_trials();
  EXPECT_FALSE(sweep.to_json().contains("target"));
  sweep.target = 0.8;
  sweep.trials[0].state = TrialState::done;
  sweep.trials[0].best = 0.95;
  sweep.trials[0].last = 0.9;
  const auto json = sweep.to_json();
  EXPECT_EQ(json["target"], 0.8);
  EXPECT_NEAR(json["last_epochs"]["mean"].get<double>(), 0.8, 1e-15) << "not of the best ones";
  EXPECT_NEAR(json["last_epochs"]["deviation"].get<double>(), 0.2 / std::sqrt(2), 1e-15);
  EXPECT_EQ(Sweep::from_json(json).to_json(), json);
  sweep.trials[0].state = sweep.trials[1].state = TrialState::failed;
  EXPECT_FALSE(last_epochs(sweep));
}

TEST(SweepRecord, DamageIsToldOf) {
  const TemporaryFolder folder;
  auto json = three_trials().to_json();
  json["trials"][0]["state"] = "lost";
  const auto file = folder.write("sweep.json", json.dump());
  EXPECT_THAT([&] { (void)Sweep::read(file); }, ThrowsMessage<InputError>(HasSubstr("\"lost\"")));
  json.erase("space");
  EXPECT_THAT([&] { (void)Sweep::from_json(json); }, ThrowsMessage<Error>(HasSubstr("space")));
}

TEST(SweepRecord, WhatIsBestDependsOnTheMetric) {
  EXPECT_THAT(best_first(three_trials()), ElementsAre(1, 0, 2)) << "what has no value is last";
  EXPECT_TRUE(is_better("val_accuracy", 0.2, 0.1));
  EXPECT_TRUE(is_better("val_loss", 0.1, 0.2));
  EXPECT_TRUE(is_better("val_loss", 0.1, not_measured));
  EXPECT_FALSE(is_better("val_loss", not_measured, 0.1));
  EXPECT_FALSE(is_better("val_accuracy", 0.1, 0.1));
  EXPECT_EQ(format_metric("val_accuracy", 0.9124), "91.24 %");
  EXPECT_EQ(format_metric("val_loss", 0.31214), "0.3121");
}

TEST(SweepRecord, NotesWhatARunHasRecorded) {
  History history;
  const double losses[] = {0.1, 0.9, 0.5, not_measured, 0.6};
  for (int epoch = 0; epoch < 5; ++epoch)
    history.add(EpochRecord{.epoch = epoch, .step = epoch, .val_loss = losses[epoch]});
  Trial trial;
  note_results(trial, history, "val_loss");
  EXPECT_EQ(trial.best, 0.5) << "not what was before training";
  EXPECT_EQ(trial.best_epoch, 2);
  EXPECT_EQ(trial.last, 0.6);
  EXPECT_EQ(trial.epochs, 4);
}

TEST(SweepRecord, KeysAreWordsWhereTheyDiffer) {
  EXPECT_THAT(names_in_words({"optimizer.lr=1", "training.batch_size=2", "model.name=b", "seed=1",
                              "training.n_epochs=3"}),
              ElementsAre("learning rate", "batch size", "model", "seed", "epochs"));
  EXPECT_THAT(names_in_words({"optimizer.lr=1", "data.lr=2"}),
              ElementsAre("optimizer.lr", "data.lr"));
}

}  // namespace
}  // namespace kolo::testing
