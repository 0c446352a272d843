// kolo train --resume: from which checkpoint, with what else than before, and what becomes of the
// records.
#include "cli/small_runs.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TrainResume : public SmallRuns {};

TEST_F(TrainResume, ScheduleAndEpochGoOnWithOtherRanksAndOtherBatches) {
  const std::string cosine = "training.lr_decay=cosine";
  ASSERT_EQ(train({cosine}, "one").exit_code, 0);
  ASSERT_EQ(train({cosine, "-n", "2", "training.batch_size=8"}, "same").exit_code, 0);
  ASSERT_EQ(train({cosine, "-n", "2"}, "two").exit_code, 0);
  const auto expect_rates_of = [&](const std::string& whole) {
    const auto expected = history(whole), resumed = history();
    ASSERT_EQ(resumed.epochs().size(), 5U);
    EXPECT_EQ(resumed.epochs()[2].lr, history("one").epochs()[2].lr);
    for (const std::size_t epoch : {3, 4})
      EXPECT_EQ(resumed.epochs()[epoch].lr, expected.epochs()[epoch].lr) << "epoch " << epoch;
    const auto last = resumed.steps().size() - 1;
    EXPECT_EQ(resumed.steps()[last].lr, expected.steps()[expected.steps().size() - 1].lr);
  };

  copy("one", "run");
  const auto two = train({cosine, "-n", "2", "--resume", "50"});
  ASSERT_EQ(two.exit_code, 0) << two.errors;
  EXPECT_THAT(two.output,
              AllOf(HasSubstr("2 ranks instead of 1, 32 samples per step instead of 16; "
                              "schedule and epoch go on where they were"),
                    Not(HasSubstr("other settings"))));
  expect_rates_of("two");
  EXPECT_EQ(history().epochs()[4].step, 50 + 2 * 13);

  std::filesystem::remove_all(folder / "run");
  copy("one", "run");
  const auto shared = train({cosine, "-n", "2", "--resume=50", "training.batch_size=8"});
  ASSERT_EQ(shared.exit_code, 0) << shared.errors;
  EXPECT_TRUE(says(shared.output, {"2 ranks instead of 1; schedule"}));
  expect_rates_of("same");

  std::filesystem::remove_all(folder / "run");
  copy("one", "run");
  const auto larger = train({cosine, "--resume=50", "training.batch_size=32"});
  ASSERT_EQ(larger.exit_code, 0) << larger.errors;
  EXPECT_TRUE(says(larger.output, {"32 samples per step instead of 16; schedule",
                                   "training.batch_size is 32 instead of 16"}));
  expect_rates_of("two");
}

TEST_F(TrainResume, WithinAnEpochToo) {
  const std::vector<std::string> settings = {"training.lr_decay=cosine",
                                             "checkpoint.every_steps=10"};
  ASSERT_EQ(train(settings).exit_code, 0);
  auto again = settings;
  again.insert(again.end(), {"-n", "2", "--resume=60"});
  ASSERT_EQ(train(again).exit_code, 0);
  const auto record = history();
  // 240 of the third epoch's 400 samples were left, 8 steps of 32; its first is the schedule's 32nd
  // of 52.
  EXPECT_EQ(record.epochs()[3].step, 68);
  EXPECT_EQ(record.epochs()[4].step, 81);
  const auto cosine = [](double step) {
    return .001 * (1 + std::cos(std::numbers::pi * step / 52));
  };
  EXPECT_NEAR(record.steps()[60].lr, cosine(31), 1e-9);
  EXPECT_NEAR(record.epochs()[4].lr, cosine(51), 1e-9);
}

// More steps than the epochs have are no limit; fewer make the schedule one of steps.
TEST_F(TrainResume, WithALimitOfStepsTheScheduleGoesOnWhereTheLimitSays) {
  const std::string cosine = "training.lr_decay=cosine";
  ASSERT_EQ(train({cosine, "training.max_steps=1000"}, "one").exit_code, 0);
  ASSERT_EQ(train({cosine, "-n", "2"}, "two").exit_code, 0);
  copy("one", "run");
  const auto loose = train({cosine, "-n", "2", "--resume=50", "training.max_steps=1000"});
  ASSERT_EQ(loose.exit_code, 0) << loose.errors;
  EXPECT_TRUE(says(loose.output, {"schedule and epoch go on where they were"}));
  ASSERT_EQ(history().epochs().size(), 5U);
  for (const std::size_t epoch : {3, 4})
    EXPECT_EQ(history().epochs()[epoch].lr, history("two").epochs()[epoch].lr) << epoch;

  std::filesystem::remove_all(folder / "run");
  copy("one", "run");
  const auto tight =
      train({cosine, "--resume=50", "training.max_steps=60", "-n", "2", "training.n_epochs=8"});
  ASSERT_EQ(tight.exit_code, 0) << tight.errors;
  EXPECT_THAT(tight.output, AllOf(HasSubstr("the schedule after as many steps as were done"),
                                  Not(HasSubstr("schedule and epoch"))));
  EXPECT_EQ(newest().step, 60);
  const auto record = history();
  EXPECT_NEAR(record.steps()[50].lr, .001 * (1 + std::cos(std::numbers::pi * 50 / 60)), 1e-9);
}

TEST_F(TrainResume, OtherSettingsAreSaidAndTheEarlierOnesKept) {
  ASSERT_EQ(train({"training.n_epochs=1"}).exit_code, 0);
  const auto before = text_of("run/config.yaml");
  const auto result = train({"--resume", "training.n_epochs=2", "optimizer.lr=0.5"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("optimizer.lr is 0.5 instead of 0.002"),
                    HasSubstr("training.n_epochs is 2 instead of 1"),
                    HasSubstr("learning rate 0.5 instead of 0.002"), Not(HasSubstr("output_dir"))));
  EXPECT_EQ(text_of("run/config.1.yaml"), before);
  EXPECT_TRUE(says(text_of("run/config.yaml"), {"lr: 0.5"}));
  ASSERT_EQ(train({"--resume", "training.n_epochs=3", "optimizer.lr=0.5"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder / "run" / "config.2.yaml"));
}

TEST_F(TrainResume, AnotherOrderOfSamplesIsRefusedUnlessItIsWanted) {
  ASSERT_EQ(train({"training.n_epochs=2", "checkpoint.every_steps=10"}).exit_code, 0);
  const auto config_before = text_of("run/config.yaml"),
             history_before = text_of("run/history.json");
  const std::vector<std::vector<std::string>> others = {{"--resume=25", "seed=2"},
                                                        {"--resume=25", "data.n_train=300"},
                                                        {"--resume=25", "data.shuffle=false"},
                                                        {"--resume=30", "training.batch_size=8"},
                                                        {"--resume=30", "seed=2", "-n", "2"}};
  for (const auto& other : others) {
    const auto refused = train(other);
    EXPECT_EQ(refused.exit_code, 2) << other[1];
    EXPECT_TRUE(says(refused.errors, {" instead of ", "--allow-data-change"}));
  }
  write_small_mnist(folder / "more", 416, 100);
  const std::string elsewhere = "data.path=" + (folder / "more").string();
  EXPECT_TRUE(
      says(train({"--resume=25", elsewhere}).errors, {"416 training samples instead of 400"}));
  EXPECT_EQ(text_of("run/config.yaml"), config_before);
  EXPECT_EQ(text_of("run/history.json"), history_before);
  // The same samples may lie somewhere else.
  std::filesystem::rename(folder / "data", folder / "moved");
  const std::string moved = "data.path=" + (folder / "moved").string();
  EXPECT_EQ(train({"--resume=25", moved, "training.n_epochs=2"}).exit_code, 0);
  const auto wanted =
      train({"--resume=25", moved, "training.n_epochs=2", "seed=2", "--allow-data-change"});
  EXPECT_EQ(wanted.exit_code, 0) << wanted.errors;
  EXPECT_TRUE(says(wanted.output, {"samples come in another order than so far: seed is 2"}));
}

TEST_F(TrainResume, AFinishedRunSaysThatItIsAndHowToGoOn) {
  ASSERT_EQ(train({}).exit_code, 0);
  const auto before = text_of("run/history.json");
  for (const std::vector<std::string>& ranks :
       {std::vector<std::string>{}, {"-n", "2"}, {"-n", "2", "--max-restarts", "2"}}) {
    auto again = ranks;
    again.emplace_back("--resume");
    const auto result = train(again);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_TRUE(
        says(result.output, {(folder / "run").string() + " holds a finished run: 4 epochs, 100 "
                                                         "steps; best validation accuracy",
                             "--resume training.n_epochs=8"}));
  }
  EXPECT_EQ(text_of("run/history.json"), before);
  EXPECT_EQ(train({"--resume", "training.n_epochs=5"}).exit_code, 0);
  EXPECT_EQ(history().epochs().size(), 6U);
}

TEST_F(TrainResume, AFinishedRunSaysHowFarItCameWhateverIsAskedFor) {
  ASSERT_EQ(train({"training.n_epochs=2"}).exit_code, 0);
  for (const char* choice : {"--resume", "--resume=25"}) {
    const auto result = train({choice, "training.n_epochs=1"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_TRUE(says(result.output, {"holds a finished run: 2 epochs, 50 steps"}));
  }
}

TEST_F(TrainResume, LessThanAStoppedRunHasDoneIsRefused) {
  const auto stopped = run_kolo_and(
      arguments({"training.n_epochs=500", "checkpoint.every_steps=1"}), [&](pid_t kolo) {
        if (wait_for_file(checkpoint(60))) ::kill(kolo, SIGTERM);
      });
  ASSERT_EQ(stopped.exit_code, 75) << stopped.errors;
  const auto before = text_of("run/history.json");
  for (const std::vector<std::string>& ranks : {std::vector<std::string>{}, {"-n", "2"}}) {
    auto words = ranks;
    words.insert(words.end(), {"--resume", "training.n_epochs=1"});
    const auto refused = train(words);
    EXPECT_EQ(refused.exit_code, 2) << refused.output;
    EXPECT_TRUE(says(refused.errors, {"which is more than training.n_epochs: 1",
                                      "or go on from an earlier checkpoint"}));
    EXPECT_TRUE(says(train({"--resume", "training.max_steps=20"}).errors,
                     {"which is more than training.max_steps: 20"}));
  }
  EXPECT_EQ(text_of("run/history.json"), before);
}

TEST_F(TrainResume, WhatIsGoneOnFromInPlaceOfADamagedOneIsLookedAtToo) {
  const std::vector<std::string> settings = {"training.n_epochs=2", "checkpoint.every_steps=10"};
  ASSERT_EQ(train(settings).exit_code, 0);
  const auto flip = [](const std::filesystem::path& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const char flipped = static_cast<char>(file.peek() ^ 4);
    file.seekp(-1, std::ios::end);
    file.put(flipped);
  };
  flip(checkpoint(50).parent_path() / "model.safetensors");
  const auto before = text_of("run/config.yaml");
  for (const std::vector<std::string>& ranks : {std::vector<std::string>{}, {"-n", "2"}}) {
    auto words = ranks;
    words.insert(words.end(), {"--resume", "training.n_epochs=3", "training.batch_size=20"});
    const auto refused = train(words);
    EXPECT_EQ(refused.exit_code, 2) << refused.output;
    EXPECT_TRUE(says(refused.errors, {"training.batch_size is 20 instead of 16"}));
  }
  EXPECT_EQ(text_of("run/config.yaml"), before);
  // What seems to be finished is not where its end is damaged.
  auto again = settings;
  again.emplace_back("--resume");
  const auto result = train(again);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(says(result.output, {"step-00000040", "is damaged"}));
  EXPECT_EQ(newest().step, 50);
}

TEST_F(TrainResume, AnEarlierCheckpointCanBeNamedAndWhatLiesBehindItIsDropped) {
  ASSERT_EQ(train({}, "whole").exit_code, 0);
  const std::vector<std::vector<std::string>> choices = {
      {"--resume", "25"},
      {"--resume", (folder / "run" / "checkpoints" / "step-00000050").string() + "/"},
      {"--resume=75", "-n", "1", "--max-restarts", "1"},
      {"--resume", "best"}};
  for (const auto& choice : choices) {
    SCOPED_TRACE(::testing::PrintToString(choice));
    std::filesystem::remove_all(folder / "run");
    copy("whole", "run");
    const auto best = store("whole").best().value();
    const auto result = train(choice);
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    if (choice.back() == "best" && best.step == 100)
      EXPECT_TRUE(says(result.output, {"holds a finished run"}));
    else
      EXPECT_TRUE(says(result.output, {"resuming from"}));
    EXPECT_FALSE(std::filesystem::exists(folder / "run.1"));
    expect_same_records("whole", "run");
    expect_same_events("whole", "run");
  }
}

TEST_F(TrainResume, AnotherRunsCheckpointBeginsARunOfItsOwn) {
  ASSERT_EQ(train({"training.n_epochs=2"}, "first").exit_code, 0);
  ASSERT_EQ(train({"training.n_epochs=1"}, "run").exit_code, 0);
  const auto before = text_of("first/history.json");
  const auto result =
      train({"--resume", folder / "first" / "checkpoints" / "step-00000050"}, "run");
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(says(result.output, {"held an earlier run; it is now"}));
  EXPECT_EQ(newest().step, 100);
  EXPECT_EQ(history().epochs().front().step, 75);
  EXPECT_EQ(text_of("first/history.json"), before);
}

TEST_F(TrainResume, WhatCannotBeGoneOnWithIsRefusedByName) {
  ASSERT_EQ(train({"training.n_epochs=1"}).exit_code, 0);
  EXPECT_TRUE(
      says(train({"--resume=7"}).errors, {"no checkpoint of step 7", "those of the steps 25"}));
  EXPECT_TRUE(
      says(train({"--resume", "bset"}).errors, {"bset is no checkpoint", "newest, best, a step"}));
  // Longer than it was, and of the same length with another byte.
  const auto file = checkpoint(25).parent_path() / "model.safetensors";
  const auto sound = read_text_file(file);
  auto changed = sound;
  changed.back() = static_cast<char>(changed.back() ^ 1);
  for (const auto& damaged : {sound + "x", changed}) {
    { std::ofstream(file, std::ios::trunc) << damaged; }
    const auto named = train({"--resume=25"});
    EXPECT_EQ(named.exit_code, 2);
    EXPECT_TRUE(says(named.errors, {checkpoint(25).parent_path().string() + " can't be used",
                                    "model.safetensors"}));
    const auto best = train({"--resume=best"});
    EXPECT_EQ(best.exit_code, 2);
    EXPECT_TRUE(says(best.errors, {checkpoint(25).parent_path().string()}));
    const auto newest = train({"--resume"});
    EXPECT_EQ(newest.exit_code, 2);
    EXPECT_TRUE(
        says(newest.errors, {"holds no checkpoint that can be used", "run without --resume"}));
  }
}

// Launcher and ranks are killed (-9) again and again, each time once there is another checkpoint.
TEST_F(TrainResume, KilledRunsHaveAllRecordsOnce) {
  const std::vector<std::string> settings = {
      "-n", "2", "training.n_epochs=16", "checkpoint.every_epochs=0", "checkpoint.every_steps=3"};
  ASSERT_EQ(train(settings, "whole").exit_code, 0);
  for (const int step : {9, 27, 51}) {
    auto again = settings;
    if (step > 9) again.emplace_back("--resume");
    std::jthread killer([&] {
      if (wait_for_file(checkpoint(step))) signal_processes_with_argument(folder / "run", SIGKILL);
    });
    EXPECT_NE(start_kolo(arguments(again)).exit_code, 0) << "it was over before it was killed";
  }
  auto last = settings;
  last.emplace_back("--resume");
  folder.write("run/history.json.1234.part", "what a killed run was writing");
  const auto result = train(last);
  EXPECT_FALSE(std::filesystem::exists(folder / "run" / "history.json.1234.part"));
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  expect_same_records("whole", "run");
  expect_same_events("whole", "run");
}

// The last step of the second epoch makes all parameters infinite.
constexpr const char* spoiling = "training.lr_schedule=[{start_epoch: 1.96, multiplier: 1e300}]";

TEST_F(TrainResume, ASpoiltNetworkIsNotSavedAndTheRunFails) {
  for (const char* epochs : {"training.n_epochs=2", "training.n_epochs=3"}) {
    std::filesystem::remove_all(folder / "run");
    const auto spoilt = train({epochs, spoiling});
    EXPECT_EQ(spoilt.exit_code, 1) << spoilt.output << spoilt.errors;
    EXPECT_TRUE(
        says(spoilt.errors, {"not finite after step 50, the last of epoch 2", "--resume best"}));
    EXPECT_EQ(newest().step, 25);
    EXPECT_EQ(train({epochs, "--resume"}).exit_code, 0);
  }
}

TEST_F(TrainResume, WhatFailsTwiceAfterTheSameStepIsNotRestartedAgain) {
  const std::string spoilt_by_two = "training.lr_schedule=[{start_epoch: 1.93, multiplier: 1e300}]";
  const auto result = train({"-n", "2", "--max-restarts", "5", "--oversubscribe", spoilt_by_two});
  EXPECT_EQ(result.exit_code, 1) << result.output;
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("restart 1 of 5"), Not(HasSubstr("restart 2 of 5")),
                    HasSubstr("failed twice after step 26"), HasSubstr("--resume best")));
  EXPECT_EQ(newest().step, 13);
  EXPECT_EQ(result.left_behind, 0);
}

}  // namespace
}  // namespace kolo::testing
