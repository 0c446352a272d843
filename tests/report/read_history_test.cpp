#include <cmath>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/report/run_record.h"
#include "report/records.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo {
namespace {

using testing::column;
using ::testing::Pair;

// Two epochs of ten steps and a half of the third, a record each five steps.
History history_of_a_run() {
  History history(4);
  history.add(EpochRecord{.val_loss = 2.5, .time = 1000});
  for (int epoch = 1; epoch <= 2; ++epoch)
    history.add(EpochRecord{.epoch = epoch,
                            .step = 10 * epoch,
                            .loss = 2.0 / epoch,
                            .accuracy = 0.25 * epoch,
                            .val_loss = 2.25 / epoch,
                            .top_accuracy = 0.5 * epoch,
                            .lr = 0.1,
                            .seconds = 7,
                            .exposed_communication_seconds = 0.5,
                            .time = 1000. + 10 * epoch});
  for (int step = 5; step <= 25; step += 5)
    history.add(StepRecord{.step = step, .loss = 1.0 / step, .time = 1000. + step});
  return history;
}

class ReadHistory : public ::testing::Test {
 protected:
  // A run's record from its folder, with this history.
  [[nodiscard]] RunRecord read_back(const History& history) const {
    history.write(folder / "history.json");
    return read_run(folder.path());
  }
  [[nodiscard]] std::string refusal() const {
    return testing::message_of<InputError>([&] { (void)read_run(folder.path()); });
  }

  testing::TemporaryFolder folder;
};

TEST_F(ReadHistory, CurvesOfEpochsAndSteps) {
  std::filesystem::create_directory(folder / "resnet");
  history_of_a_run().write(folder / "resnet/history.json");
  const RunRecord run = read_run(folder / "resnet");
  EXPECT_EQ(run.name, "resnet");
  EXPECT_EQ(run.source, folder / "resnet");
  EXPECT_EQ(run.ranks, 4);
  EXPECT_FALSE(run.is_finished);
  EXPECT_THAT(run.warnings, IsEmpty());

  const Curve* loss = run.find("loss", "training");
  EXPECT_THAT(column(loss, &CurvePoint::value), ElementsAre(2, 1));
  EXPECT_THAT(column(loss, &CurvePoint::epoch), ElementsAre(1, 2));
  EXPECT_THAT(column(loss, &CurvePoint::step), ElementsAre(10, 20));
  EXPECT_THAT(column(loss, &CurvePoint::time), ElementsAre(1010, 1020));
  // The validation before training is one of epoch 0.
  const Curve* validation = run.find("loss", "validation");
  EXPECT_THAT(column(validation, &CurvePoint::value), ElementsAre(2.5, 2.25, 1.125));
  EXPECT_THAT(column(validation, &CurvePoint::epoch), ElementsAre(0, 1, 2));
  EXPECT_THAT(column(run.find("top_accuracy", "training"), &CurvePoint::value),
              ElementsAre(0.5, 1));
  EXPECT_THAT(column(run.find("learning_rate", ""), &CurvePoint::value), ElementsAre(0.1, 0.1));
  EXPECT_THAT(column(run.find("epoch_seconds", ""), &CurvePoint::value), ElementsAre(7, 7));
  EXPECT_THAT(column(run.find("exposed_communication_seconds", ""), &CurvePoint::value),
              ElementsAre(0.5, 0.5));
  EXPECT_EQ(run.results.epoch_seconds, 7);
  EXPECT_EQ(run.results.exposed_communication_seconds, 0.05) << "of a step";
  // Quantities that were not measured have no curve.
  EXPECT_EQ(run.find("accuracy", "validation"), nullptr);
  EXPECT_EQ(run.find("data_wait_seconds", ""), nullptr);

  const Curve* steps = run.find("loss", "training", true);
  EXPECT_THAT(column(steps, &CurvePoint::step), ElementsAre(5, 10, 15, 20, 25));
  EXPECT_THAT(column(steps, &CurvePoint::epoch), ElementsAre(0.5, 1, 1.5, 2, 2.5));
  EXPECT_THAT(column(steps, &CurvePoint::time), ElementsAre(1005, 1010, 1015, 1020, 1025));
}

TEST_F(ReadHistory, TimeIsThatOfTrainingWithoutPauses) {
  History history(1);
  history.add(EpochRecord{.val_loss = 3, .time = 1000, .elapsed = 0});
  history.add(EpochRecord{.epoch = 1, .step = 10, .val_loss = 2, .time = 1010, .elapsed = 10});
  history.add(EpochRecord{.epoch = 2, .step = 20, .val_loss = 1, .time = 5020, .elapsed = 21});
  const auto elapsed = [&] {
    return column(read_back(history).find("loss", "validation"), &CurvePoint::elapsed);
  };
  EXPECT_THAT(elapsed(), ElementsAre(0, 10, 21));
}

TEST_F(ReadHistory, StepsBeforeTheFirstEpochsEndHaveNoEpoch) {
  History history(1);
  history.add(StepRecord{.step = 5, .loss = 1});
  history.write(folder / "history.json");
  const RunRecord run = read_run(folder / "history.json");
  EXPECT_EQ(run.name, folder.path().filename());
  ASSERT_NE(run.find("loss", "training", true), nullptr);
  EXPECT_TRUE(std::isnan(run.find("loss", "training", true)->points[0].epoch));
}

TEST_F(ReadHistory, ASummaryIsWrittenAtTheEnd) {
  History history = history_of_a_run();
  history.summary()["best_epoch"] = 2;
  EXPECT_TRUE(read_back(history).is_finished);
}

TEST_F(ReadHistory, SettingsAndParametersBesideIt) {
  folder.write("config.yaml",
               "description: \"A run: one\"\noptimizer:\n  lr: 0.001\n  nesterov: false\n"
               "model:\n  input_shape: [3, 64, 64]\n  file: \"\"\n  nothing:\n  none: []\n"
               "stages:\n  - {width: 8}\n  - {width: 16}\n");
  folder.write("model.txt",
               "layer  operation  output  parameters  FLOPs per sample\n"
               "total                     1,234,567   1,000\n"
               "1 234 500 trainable parameters, 67 frozen, 12 values in buffers\n");
  const RunRecord run = read_back(history_of_a_run());
  EXPECT_EQ(run.parameters, 1234567);
  EXPECT_THAT(
      run.settings,
      ElementsAre(Pair("description", "A run: one"), Pair("optimizer.lr", "0.001"),
                  Pair("optimizer.nesterov", "false"), Pair("model.input_shape", "[3, 64, 64]"),
                  Pair("model.file", ""), Pair("model.nothing", "unset"), Pair("model.none", "[]"),
                  Pair("stages", "[{width: 8}, {width: 16}]")));
  EXPECT_THAT(run.warnings, IsEmpty());
}

TEST_F(ReadHistory, HowItWasMade) {
  folder.write("config.yaml", "model:\n  name: cnn\n");
  folder.write("run.json",
               R"({"starts": [{"time": "today", "command": "kolo train a.yaml", "version": "1.0",
                   "commit": "0123456789abcdef-dirty", "host": "node1", "machine": "2 CPUs"},
                  {"time": "tomorrow", "command": 7}]})");
  const RunRecord run = read_back(history_of_a_run());
  EXPECT_EQ(run.configuration, "model:\n  name: cnn\n");
  EXPECT_THAT(run.facts, ElementsAre(Pair("command", "kolo train a.yaml"), Pair("begun", "today"),
                                     Pair("resumed", "1 time, last on tomorrow"),
                                     Pair("machine", "node1, 2 CPUs"), Pair("ranks", "4"),
                                     Pair("network", "cnn"),
                                     Pair("kolo", "1.0, git 0123456789ab with changes")));
  for (const char* const text : {"{", "[]", R"({"starts": 7})", R"({"starts": [7]})"}) {
    folder.write("run.json", text);
    EXPECT_THAT(read_run(folder.path()).facts,
                ElementsAre(Pair("ranks", "4"), Pair("network", "cnn")));
  }
}

TEST_F(ReadHistory, WhatCannotBeReadBesideItIsSaid) {
  folder.write("model.txt", "hello\n");
  // The last one stands for ten to the tenth values.
  std::string many = "l0: &l0 {}\n";
  for (int i = 1; i <= 10; ++i) {
    many += fmt::format("l{}: &l{} [", i, i);
    for (int j = 0; j < 10; ++j) many += fmt::format("*l{}, ", i - 1);
    many += "]\n";
  }
  for (const std::string& yaml :
       {std::string("a: [1, 2"), std::string("- 1\n- 2\n"), std::string("a: &a {b: *a}\n"), many}) {
    folder.write("config.yaml", yaml);
    const RunRecord run = read_back(history_of_a_run());
    EXPECT_NE(run.find("loss", "training"), nullptr);
    EXPECT_THAT(run.warnings, ElementsAre(HasSubstr("config.yaml"), HasSubstr("model.txt")));
    EXPECT_EQ(run.parameters, std::nullopt);
  }
}

TEST_F(ReadHistory, ADamagedOneIsRefused) {
  const auto history = folder.write("history.json", "{\"n_ranks\": 2, \"epochs\": [{\"epo");
  EXPECT_TRUE(says(refusal(), {"cut off", history.string()}));
}

TEST_F(ReadHistory, AFolderMayHoldOneRunBelow) {
  folder.write("events.out.tfevents.1.host", "");
  EXPECT_TRUE(says(refusal(), {"no run in", "TensorBoard shows event files"}));
  for (const char* const name : {"b", "a"}) {
    std::filesystem::create_directories(folder / name / "logs");
    history_of_a_run().write(folder / name / "logs/history.json");
    if (name[0] == 'b') {
      EXPECT_EQ(read_run(folder.path()).name, "b") << "not logs";
    }
  }
  EXPECT_TRUE(says(refusal(), {"has 2 runs", "/a/logs\n", "/b/logs"}));
}

}  // namespace
}  // namespace kolo
