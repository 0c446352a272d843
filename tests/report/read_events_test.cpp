#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/report/run_record.h"
#include "kolo/train/observe/tensorboard.h"
#include "report/records.h"
#include "support/errors.h"
#include "support/event_encoder.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo {
namespace {

namespace events = testing::events;
using ::testing::AllOf;
using testing::column;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsNan;
using testing::message_of;
using ::testing::Not;
using testing::TemporaryFolder;

constexpr std::string_view file_name = "events.out.tfevents.1000.host.1.0";

std::vector<double> values_of(const Curve* curve) {
  return column(curve, &CurvePoint::value);
}

// Writes event files below the folder and reads the run.
class ReadEvents : public ::testing::Test {
 protected:
  void write(std::string_view below, const std::string& records) {
    const auto name =
        below.empty() ? std::string(file_name) : fmt::format("{}/{}", below, file_name);
    folder_.write(name, events::version() + records);
  }
  [[nodiscard]] RunRecord read() const { return read_run(folder_.path()); }

  TemporaryFolder folder_;
};

// As the tutorials' training programs write with PyTorch's SummaryWriter: values at the end of each
// epoch against the number of steps, and the first before training.
TEST_F(ReadEvents, OfATutorialsPyTorchRun) {
  std::string records = events::scalar("Loss/train", 4, 0) + events::scalar("Loss/valid", 5, 0);
  for (int epoch = 1; epoch <= 3; ++epoch) {
    const int step = 1024 * epoch;
    records += events::scalar("Loss/train", 4.0F - static_cast<float>(epoch), step, 1000 + step) +
               events::scalar("Learning Rate", 0.5F, step, 1001 + step) +
               events::scalar("Avg iters per sec", 6, step, 1002 + step) +
               events::scalar("Loss/valid", 5.0F - static_cast<float>(epoch), step, 1003 + step);
  }
  write("", records);
  const RunRecord run = read();
  EXPECT_EQ(run.name, folder_.path().filename());
  EXPECT_EQ(run.writer, "event files");
  EXPECT_TRUE(run.is_finished);
  EXPECT_EQ(run.ranks, std::nullopt);
  EXPECT_EQ(run.curves.size(), 4U);
  const Curve* training = run.find("loss", "training");
  EXPECT_THAT(values_of(training), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(column(training, &CurvePoint::step), ElementsAre(0, 1024, 2048, 3072));
  EXPECT_THAT(column(training, &CurvePoint::time), ElementsAre(1000, 2024, 3048, 4072));
  EXPECT_THAT(column(training, &CurvePoint::epoch), Each(IsNan()));
  EXPECT_THAT(values_of(run.find("loss", "validation")), ElementsAre(5, 4, 3, 2));
  EXPECT_THAT(values_of(run.find("learning_rate", "")), ElementsAre(0.5, 0.5, 0.5));
  EXPECT_THAT(values_of(run.find("Avg iters per sec", "")), ElementsAre(6, 6, 6));
  EXPECT_THAT(run.warnings, IsEmpty());
}

TEST_F(ReadEvents, OfKolosOwnWriter) {
  {
    TensorBoardWriter writer(folder_.path());
    writer.add_scalar("loss/validation", 3, 0);
    for (int step = 5; step <= 25; step += 5) {
      writer.add_scalar("step/loss", 1.0 / step, step);
      if (step % 10 != 0) continue;
      writer.add_scalar("loss/train", step, step);
      writer.add_scalar("loss/validation", step, step);
      writer.add_scalar("top_accuracy/validation", 0.5, step);
      writer.add_scalar("learning_rate", 0.1, step);
      writer.add_scalar("samples_per_second", 100, step);
      writer.add_scalar("exposed_communication_seconds", 0, step);
    }
  }
  const RunRecord run = read();
  EXPECT_EQ(run.writer, "kolo") << "whose epoch 0 is the network before training";
  EXPECT_THAT(column(run.find("loss", "training"), &CurvePoint::epoch), ElementsAre(1, 2));
  EXPECT_THAT(column(run.find("loss", "validation"), &CurvePoint::epoch), ElementsAre(0, 1, 2));
  EXPECT_THAT(column(run.find("loss", "training", true), &CurvePoint::epoch),
              ElementsAre(0.5, 1, 1.5, 2, 2.5));
  EXPECT_THAT(values_of(run.find("samples_per_second", "")), ElementsAre(100, 100));
  EXPECT_THAT(values_of(run.find("top_accuracy", "validation")), ElementsAre(0.5, 0.5));
}

TEST_F(ReadEvents, AResumedRunsFilesAreReadTogether) {
  folder_.write("events.out.tfevents.1", events::version() + events::scalar("loss/train", 3, 10) +
                                             events::scalar("loss/train", 2, 20));
  folder_.write("events.out.tfevents.2",
                events::version() + events::restart(11) + events::scalar("loss/train", 1.5F, 20));
  EXPECT_THAT(values_of(read().find("loss", "training")), ElementsAre(3, 1.5));
}

// Keras' callback: a folder for training and one for validation, tensors, steps that are epochs
// counted from 0.
TEST_F(ReadEvents, OfKeras) {
  for (const char* part : {"train", "validation"}) {
    std::string records;
    for (int epoch = 0; epoch < 3; ++epoch) {
      const auto value = static_cast<float>(epoch);
      records += events::tensor_scalar("epoch_loss", 3 - value, epoch) +
                 events::tensor_scalar("epoch_sparse_categorical_accuracy", value / 4, epoch) +
                 events::tensor_scalar("epoch_mean_absolute_error", value, epoch);
      if (part[0] == 't') records += events::tensor_scalar("epoch_learning_rate", 0.25F, epoch);
    }
    if (part[0] == 't') records += events::tensor_scalar("batch_loss", 9, 17);
    write(part, records);
  }
  const RunRecord run = read();
  for (const char* part : {"training", "validation"}) {
    EXPECT_THAT(values_of(run.find("loss", part)), ElementsAre(3, 2, 1));
    EXPECT_THAT(column(run.find("loss", part), &CurvePoint::epoch), ElementsAre(1, 2, 3));
    EXPECT_THAT(column(run.find("loss", part), &CurvePoint::step), Each(IsNan()));
    EXPECT_THAT(values_of(run.find("accuracy", part)), ElementsAre(0, 0.25, 0.5));
    EXPECT_THAT(values_of(run.find("epoch_mean_absolute_error", part)), ElementsAre(0, 1, 2));
  }
  EXPECT_THAT(values_of(run.find("learning_rate", "")), ElementsAre(0.25, 0.25, 0.25));
  EXPECT_THAT(column(run.find("loss", "training", true), &CurvePoint::step), ElementsAre(17));
  EXPECT_THAT(column(run.find("loss", "training", true), &CurvePoint::epoch), Each(IsNan()));
  // One of its folders alone is what its name says.
  EXPECT_THAT(values_of(read_run(folder_ / "validation").find("loss", "validation")),
              ElementsAre(3, 2, 1));
}

// Lightning: all against steps, and the number of the epoch that goes on, from 0, beside them.
TEST_F(ReadEvents, OfLightning) {
  std::string records;
  for (int step = 4; step < 25; step += 5) {
    const auto epoch = static_cast<float>(step / 10);
    records += events::scalar("train_loss_step", 1, step) + events::scalar("epoch", epoch, step) +
               events::scalar("lr-AdamW", 0.125F, step);
    if (step % 10 != 9) continue;
    records += events::scalar("val_loss", epoch, step) +
               events::scalar("train_loss_epoch", epoch, step) +
               events::scalar("epoch", epoch, step);
  }
  write("", records);
  folder_.write("hparams.yaml", "lr: 0.125\n");
  const RunRecord run = read();
  EXPECT_THAT(values_of(run.find("loss", "training")), ElementsAre(0, 1));
  EXPECT_THAT(column(run.find("loss", "training"), &CurvePoint::epoch), ElementsAre(1, 2));
  EXPECT_THAT(column(run.find("loss", "validation"), &CurvePoint::epoch), ElementsAre(1, 2));
  EXPECT_THAT(column(run.find("loss", "training", true), &CurvePoint::epoch),
              ElementsAre(4.0 / 9, 1, 1.5, 2, 2.5));
  EXPECT_NE(run.find("learning_rate", ""), nullptr);
  EXPECT_EQ(run.find("epoch", ""), nullptr);
}

TEST_F(ReadEvents, EpochsWithFractionsAreThoseDone) {
  std::string records;
  for (int step = 50; step <= 200; step += 50)
    records += events::scalar("train/loss", 1, step) +
               events::scalar("train/epoch", static_cast<float>(step) / 100, step);
  write("", records + events::scalar("eval/loss", 2, 100));
  const RunRecord run = read();
  EXPECT_THAT(column(run.find("loss", "training"), &CurvePoint::epoch),
              ElementsAre(0.5, 1, 1.5, 2));
  EXPECT_THAT(column(run.find("loss", "validation"), &CurvePoint::epoch), ElementsAre(1));
}

// add_scalar("Loss/train", loss, epoch), as most programs have it.
TEST_F(ReadEvents, AValidationAtEachStepInTurnIsOneAnEpoch) {
  std::string from_zero, from_one = events::scalar("val loss", 9, 0);
  for (int i = 0; i < 3; ++i) {
    from_zero += events::scalar("Loss/train", 1, i) + events::scalar("Loss/test", 2, i) +
                 events::scalar("Accuracy/test", 90.5F, i) + events::scalar("batch/lr", 1, 100 * i);
    from_one += events::scalar("trainLoss", 1, i + 1) + events::scalar("val loss", 2, i + 1);
  }
  write("a", from_zero);
  write("b", from_one);
  const RunRecord zero = read_run(folder_ / "a"), one = read_run(folder_ / "b");
  EXPECT_THAT(column(zero.find("loss", "training"), &CurvePoint::epoch), ElementsAre(1, 2, 3));
  EXPECT_THAT(column(zero.find("loss", "validation"), &CurvePoint::epoch), ElementsAre(1, 2, 3));
  EXPECT_THAT(column(zero.find("loss", "validation"), &CurvePoint::step), Each(IsNan()));
  EXPECT_THAT(column(zero.find("learning_rate", "", true), &CurvePoint::step),
              ElementsAre(0, 100, 200));
  EXPECT_THAT(values_of(zero.find("accuracy", "validation")), Each(::testing::DoubleEq(0.905)));
  EXPECT_THAT(zero.warnings, ElementsAre(HasSubstr("Accuracy/test")));
  EXPECT_THAT(column(one.find("loss", "training"), &CurvePoint::epoch), ElementsAre(1, 2, 3));
  EXPECT_THAT(column(one.find("loss", "validation"), &CurvePoint::epoch), ElementsAre(0, 1, 2, 3));
}

TEST_F(ReadEvents, ATrainingLossOfEachStepIsAnotherCurve) {
  std::string records;
  for (int step = 1; step <= 100; ++step) {
    records += events::scalar("loss/train", 1, step);
    if (step % 50 == 0) records += events::scalar("loss/val", 2, step);
  }
  write("", records);
  const RunRecord run = read();
  EXPECT_EQ(values_of(run.find("loss", "training", true)).size(), 100U);
  EXPECT_EQ(run.find("loss", "training", false), nullptr);
  EXPECT_THAT(values_of(run.find("loss", "validation")), ElementsAre(2, 2));
}

TEST_F(ReadEvents, WhatCannotBeOneCurveKeepsItsTag) {
  write("", events::scalar("test/loss", 3, 1) + events::scalar("val/loss", 2, 1) +
                events::scalar("validation_loss", 1, 1) + events::scalar("Loss/generator", 4, 1));
  const RunRecord run = read();
  EXPECT_THAT(values_of(run.find("loss", "validation")), ElementsAre(2));
  EXPECT_THAT(values_of(run.find("validation_loss", "")), ElementsAre(1));
  EXPECT_THAT(values_of(run.find("test/loss", "")), ElementsAre(3));
  EXPECT_THAT(values_of(run.find("Loss/generator", "")), ElementsAre(4));
}

TEST_F(ReadEvents, FoldersOfAddScalarsAreOneRun) {
  write("logs", events::scalar("learning rate", 0.5F, 10));
  write("logs/Loss_train", events::scalar("Loss", 1, 10));
  write("logs/Loss_valid", events::scalar("Loss", 2, 10));
  write("logs/G_A_real", events::scalar("G/A", 3, 10));
  const RunRecord run = read();
  EXPECT_EQ(run.curves.size(), 4U);
  EXPECT_THAT(values_of(run.find("loss", "training")), ElementsAre(1));
  EXPECT_THAT(values_of(run.find("loss", "validation")), ElementsAre(2));
  EXPECT_THAT(values_of(run.find("G/A/real", "")), ElementsAre(3));
  EXPECT_THAT(values_of(run.find("learning_rate", "")), ElementsAre(0.5));
  // A folder of logs has the name of what it is in.
  EXPECT_EQ(read_run(folder_ / "logs/").name, folder_.path().filename());
}

TEST_F(ReadEvents, DamageIsAWarningWhereSomethingIsLeft) {
  const std::string bytes =
      events::version() + events::scalar("loss", 1, 1) + events::scalar("loss", 2, 2);
  folder_.write("events.out.tfevents.1", bytes.substr(0, bytes.size() - 3));
  folder_.write("events.out.tfevents.2", "");
  const RunRecord run = read();
  EXPECT_THAT(values_of(run.find("loss", "training")), ElementsAre(1));
  EXPECT_THAT(run.warnings, ElementsAre(AllOf(HasSubstr("tfevents.1"), HasSubstr("ends within")),
                                        AllOf(HasSubstr("tfevents.2"), HasSubstr("empty"))));
  EXPECT_TRUE(
      says(message_of<InputError>([&] { (void)read_run(folder_ / "events.out.tfevents.2"); }),
           {"empty"}));
}

TEST_F(ReadEvents, ARunThatHasJustBegunHasNoCurves) {
  write("", "");
  const RunRecord run = read();
  EXPECT_THAT(run.curves, IsEmpty());
  EXPECT_THAT(run.warnings, ElementsAre(HasSubstr("no scalars")));
}

TEST_F(ReadEvents, WhatIsThereInsteadOfScalarsIsSaid) {
  write("", events::tensor_event("text", events::tensor(events::string_type, ""), 1));
  EXPECT_THAT(read().warnings, ElementsAre(AllOf(HasSubstr("no scalars"), HasSubstr("1 other"))));
}

TEST_F(ReadEvents, OneFileIsARun) {
  write("", events::scalar("loss", 1, 1));
  const RunRecord run = read_run(folder_ / file_name);
  EXPECT_EQ(run.name, file_name);
  EXPECT_THAT(values_of(run.find("loss", "training")), ElementsAre(1));
}

TEST_F(ReadEvents, SeveralRunsAreListed) {
  write("small/logs", events::scalar("loss", 1, 1));
  write("large/train", events::scalar("loss", 1, 1));
  write("large/val", events::scalar("loss", 1, 1));
  folder_.write("kolo/history.json", "{}");
  folder_.write("kolo/events.out.tfevents.1", events::version());
  EXPECT_THAT(message_of<InputError>([&] { (void)read(); }),
              AllOf(HasSubstr("3 runs"), HasSubstr("\n  " + (folder_ / "large").string() + "\n"),
                    HasSubstr((folder_ / "small/logs").string()),
                    HasSubstr((folder_ / "kolo").string()), Not(HasSubstr("large/"))));
}

TEST_F(ReadEvents, NoRunIsSaid) {
  folder_.write("notes.txt", "hello");
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)read(); }),
                   {"no run in " + folder_.path().string(), "history.json", "tfevents"}));
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)read_run(folder_ / "missing"); }),
                   {"missing", "No such file"}));
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)read_run(folder_ / "notes.txt"); }),
                   {"notes.txt", "text"}));
}

}  // namespace
}  // namespace kolo
