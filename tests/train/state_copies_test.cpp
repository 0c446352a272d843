// Copies of a training's state between its checkpoints.
#include "kolo/train/state_copies.h"

#include <filesystem>
#include <optional>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/checkpoint/module_tensors.h"
#include "kolo/train/trainer_snapshots.h"
#include "support/temporary_folder.h"
#include "train/training_fixture.h"

namespace kolo {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SmallTraining;
using testing::TemporaryFolder;

// The last step that a rank has told its records.
class LastStep final : public Observer {
 public:
  void on_step(const StepReport& report) override { step = report.state.step; }
  void on_validation(std::int64_t, std::int64_t) override { validates = true; }
  void on_epoch_begin(const TrainState&, std::int64_t, std::int64_t) override { validates = false; }
  std::int64_t step = 0;
  bool validates = false;
};

class StateCopyTraining : public ::testing::Test {
 protected:
  // 13 steps per epoch.
  SmallTraining training{Communicator::solo(), {.dropout = 0}};
  TemporaryFolder folder;
  CheckpointStore store{{folder / "copies", 1}};
  TrainerSnapshots snapshots{training.trainer(), {}};
  std::vector<std::string> warnings;

  StateCopies::Work work() {
    StateCopies::Work work;
    work.take = [this] { return snapshots.take(); };
    work.warn = [this](const std::string& warning) { warnings.push_back(warning); };
    return work;
  }
};

TEST_F(StateCopyTraining, HoldWhatACheckpointOfTheStepWould) {
  CheckpointStore checkpoints({folder / "checkpoints", 100});
  CheckpointObserver saving(checkpoints, {.every_steps = 1},
                            [&] { return training.trainer().checkpoint(); });
  training.trainer().add_observer(saving);
  StateCopies copies(5, &store, work());
  training.trainer().add_observer(copies);
  EXPECT_EQ(training.trainer().run(), TrainOutcome::finished);
  const auto copy = store.load_newest([](const auto&) {}).value();
  EXPECT_EQ(copy.step % 5, 0);
  EXPECT_GT(copy.step, 0);
  ASSERT_EQ(store.folders().size(), 1U) << "one is kept";
  const auto same = CheckpointStore::load(folder / "checkpoints" / copy.path.filename().string());
  ASSERT_EQ(copy.content.model.size(), same.content.model.size());
  for (const auto& item : same.content.model)
    EXPECT_TRUE(
        saved_tensor(copy.content.model, item.name, item.tensor.sizes()).equal(item.tensor));
  EXPECT_EQ(copy.content.state["position"], same.content.state["position"]);
  EXPECT_THAT(warnings, ElementsAre());
}

TEST_F(StateCopyTraining, AreWrittenWhenTheStepAfterThemIsDone) {
  LastStep last;
  training.trainer().add_observer(last);
  auto late = work();
  std::int64_t taken = 0;
  std::vector<std::int64_t> written;
  late.take = [&] {
    taken = last.step;
    return snapshots.take();
  };
  late.check = [&] {
    EXPECT_TRUE(last.step > taken || last.validates) << "step " << taken;
    written.push_back(taken);
  };
  StateCopies copies(13, &store, std::move(late));
  training.trainer().add_observer(copies);
  EXPECT_EQ(training.trainer().run(), TrainOutcome::finished);
  // The second is left out where the first is still on its way to the disk.
  EXPECT_THAT(written, AnyOf(ElementsAre(13), ElementsAre(13, 26)));
}

TEST_F(StateCopyTraining, WhatGoesWrongIsSaidOnceAndTrainingGoesOn) {
  (void)store.save(0, training.trainer().checkpoint(), false);  // of an earlier start
  auto full = work();
  int checks = 0;
  full.check = [&] {
    ++checks;
    throw Error("no room");
  };
  StateCopies copies(1, &store, std::move(full));
  training.trainer().add_observer(copies);
  EXPECT_EQ(training.trainer().run(), TrainOutcome::finished);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings.front(), HasSubstr("no room; there are no more copies"));
  EXPECT_EQ(checks, 1);
  EXPECT_EQ(store.load_newest([](const auto&) {}).value().step, 0) << "the one before stays";

  folder.write("file", "in the place of a folder");
  SmallTraining other(Communicator::solo(), {.dropout = 0});
  CheckpointStore nowhere({folder / "file", 1});
  TrainerSnapshots of_other(other.trainer(), {});
  auto failing = work();
  failing.take = [&] { return of_other.take(); };
  StateCopies none(2, &nowhere, std::move(failing));
  other.trainer().add_observer(none);
  EXPECT_EQ(other.trainer().run(), TrainOutcome::finished);
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_THAT(warnings.back(), HasSubstr("file"));
}

TEST_F(StateCopyTraining, OfWhatIsNotFiniteAreNotMade) {
  StateCopies copies(1, &store, work());
  training.trainer().add_observer(copies);
  {
    const torch::NoGradGuard no_gradient;
    training.network().parameters().back().view(-1)[0] = std::nanf("");
  }
  EXPECT_THROW((void)training.trainer().run(), Error) << "as without copies";
  EXPECT_TRUE(store.folders().empty());
}

}  // namespace
}  // namespace kolo
