// Training for targets that are numbers: everything goes by the loss, and nothing is right or
// wrong.
#include <sstream>

#include "kolo/base/file.h"
#include "kolo/train/checkpoint_observer.h"
#include "kolo/train/recorders.h"
#include "support/says.h"
#include "support/temporary_folder.h"
#include "train/field_training.h"

namespace kolo::testing {
namespace {

Recorder train_fields(int ranks, const FieldSetup& setup, TrainState* state = nullptr) {
  Recorder record;
  run_as_threads(ranks, [&](const Communicator& communicator) {
    FieldTraining training(communicator, setup);
    if (communicator.rank() == 0) training.trainer().add_observer(record);
    EXPECT_EQ(training.trainer().run(), TrainOutcome::finished);
    if (communicator.rank() == 0 && state != nullptr) *state = training.trainer().state();
  });
  return record;
}

TEST(Regression, LearnsFieldsAndGoesByTheLoss) {
  TrainState state;
  const auto record = train_fields(1, {.epochs = 6}, &state);
  EXPECT_EQ(record.untrained->samples, 13);
  EXPECT_FALSE(record.untrained->has_accuracy());
  const auto& last = record.epochs.back();
  EXPECT_LT(last.validation.mean_loss(), .3 * record.untrained->mean_loss());
  EXPECT_FALSE(last.training.has_accuracy());
  EXPECT_EQ(last.training.samples, 64);
  double least = 1e9;
  std::int64_t best_epoch = 0;
  for (std::size_t epoch = 0; epoch < record.epochs.size(); ++epoch) {
    const double loss = record.epochs[epoch].validation.mean_loss();
    EXPECT_EQ(record.is_best[epoch], loss < least);
    if (loss >= least) continue;
    least = loss;
    best_epoch = static_cast<std::int64_t>(epoch) + 1;
  }
  EXPECT_EQ(state.best_loss, least);
  EXPECT_EQ(state.best_epoch, best_epoch);
  EXPECT_LT(state.best_accuracy, 0);
}

TEST(Regression, TheLossIsTheMeanOverAllSamplesWhateverTheRanks) {
  const auto one = train_fields(1, {.samples = 48, .batch_size = 12});
  for (const int ranks : {2, 3}) {
    const auto many = train_fields(ranks, {.samples = 48, .batch_size = 12 / ranks});
    ASSERT_EQ(many.losses.size(), one.losses.size());
    for (std::size_t step = 0; step < one.losses.size(); ++step)
      EXPECT_NEAR(many.losses[step], one.losses[step], 1e-5);
    for (std::size_t epoch = 0; epoch < one.epochs.size(); ++epoch) {
      EXPECT_NEAR(many.epochs[epoch].validation.mean_loss(),
                  one.epochs[epoch].validation.mean_loss(), 1e-6);
    }
  }
}

TEST(Regression, PatienceGoesByTheLoss) {
  TrainState state;
  const FieldSetup setup{.epochs = 30, .learning_rate = 0, .change = [](auto& options) {
                           options.early_stopping_patience = 2;
                         }};
  (void)train_fields(2, setup, &state);
  EXPECT_EQ(state.best_epoch, 1);
  EXPECT_EQ(state.epoch, 3);
}

TEST(Regression, TheBestCheckpointHasTheLeastLoss) {
  const TemporaryFolder folder;
  CheckpointStore store({folder / "checkpoints", 1});
  FieldTraining training(Communicator::solo(), {.epochs = 5, .learning_rate = .1});
  CheckpointObserver saver(training.trainer(), &store, {});
  training.trainer().add_observer(saver);
  (void)training.trainer().run();
  const auto best = CheckpointStore::load(store.best().value().path);
  EXPECT_EQ(best.content.state.at("epoch"), training.trainer().state().best_epoch);
}

TEST(Regression, GoesOnFromACheckpointToTheSameBitsAndTheSameBest) {
  const auto solo = Communicator::solo();
  FieldTraining whole(solo, {});
  ASSERT_EQ(whole.trainer().run(), TrainOutcome::finished);
  int steps = 0;
  FieldTraining first(solo, {}, [&] { return ++steps == 11; });
  ASSERT_EQ(first.trainer().run(), TrainOutcome::stopped);
  FieldTraining second(solo, {});
  second.trainer().restore(first.trainer().checkpoint());
  EXPECT_EQ(second.trainer().state().best_loss, first.trainer().state().best_loss);
  ASSERT_EQ(second.trainer().run(), TrainOutcome::finished);
  EXPECT_TRUE(second.weights().equal(whole.weights()));
  EXPECT_EQ(second.trainer().state().best_loss, whole.trainer().state().best_loss);
}

TEST(Regression, RecordsAndLinesTellTheLossAlone) {
  const TemporaryFolder folder;
  std::ostringstream console;
  double best_loss = 0;
  {
    ProgressBar bar(console, {});
    RunLog log({.console = &console});
    FieldTraining training(Communicator::solo(), {});
    ProgressReporter reporter(bar, log, 3, "crops");
    training.trainer().add_observer(reporter);
    RunRecorder recorder(History(1), folder / "run", 3);
    training.trainer().add_observer(recorder);
    (void)training.trainer().run();
    best_loss = training.trainer().state().best_loss;
  }
  const auto history = History::read(folder / "run/history.json");
  EXPECT_EQ(history.summary().at("best_val_loss"), best_loss);
  for (const auto& record : history.epochs()) {
    EXPECT_TRUE(std::isnan(record.accuracy) && std::isnan(record.val_accuracy));
    EXPECT_GT(record.val_loss, 0);
  }
  EXPECT_TRUE(std::isnan(history.steps().front().accuracy));
  EXPECT_FALSE(history.summary().contains("best_val_accuracy"));
  std::string events;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "run"))
    if (entry.path() != folder / "run/history.json") events += read_text_file(entry.path());
  EXPECT_TRUE(says(events, {"loss/validation"}));
  EXPECT_TRUE(says(events, {"step/loss"}));
  EXPECT_FALSE(says(events, {"accuracy"}));
  EXPECT_THAT(console.str(), ::testing::ContainsRegex("epoch 1/3  loss 0.[0-9]+  validation loss "
                                                      "0.0[0-9]+ \\(best\\)  .* crops/s"));
  EXPECT_FALSE(says(console.str(), {"accuracy"}));
}

}  // namespace
}  // namespace kolo::testing
