// kolo train --resume: choice of the checkpoint, changed settings, and the records.
#include "cli/small_runs.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

class TrainResume : public SmallRuns {
 protected:
  static inline const std::string cosine = "training.lr_decay=cosine";
  // Ten steps after the first epoch, and after each ten.
  static inline const std::vector<std::string> two_epochs = {"training.n_epochs=2",
                                                             "checkpoint.every_steps=10"};
};

TEST_F(TrainResume, ScheduleAndEpochGoOnWithOtherRanksAndOtherBatches) {
  have_run({cosine}, "one");
  have_run({cosine, "-n", "2"}, "two");
  const auto resume = [&](const std::vector<std::string>& more) {
    copy("one", "run");
    const auto result = train(joined(more, {cosine, "--resume", "50"}));
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return result.output;
  };
  const auto expect_rates_of = [&](const std::string& whole) {
    const auto expected = history(whole), resumed = history();
    ASSERT_EQ(resumed.epochs().size(), 5U);
    EXPECT_EQ(resumed.epochs()[2].lr, history("one").epochs()[2].lr);
    for (const std::size_t epoch : {3, 4})
      EXPECT_EQ(resumed.epochs()[epoch].lr, expected.epochs()[epoch].lr) << "epoch " << epoch;
    const auto last = resumed.steps().size() - 1;
    EXPECT_EQ(resumed.steps()[last].lr, expected.steps()[expected.steps().size() - 1].lr);
  };

  EXPECT_THAT(resume({"-n", "2"}),
              AllOf(HasSubstr("2 ranks instead of 1, 32 samples per step instead of 16; "
                              "schedule and epoch go on where they were"),
                    Not(HasSubstr("other settings"))));
  expect_rates_of("two");
  EXPECT_EQ(history().epochs()[4].step, 50 + 2 * 13);
  EXPECT_TRUE(
      says(resume({"-n", "2", "training.batch_size=8"}), {"2 ranks instead of 1; schedule"}));
  expect_rates_of("one");
  EXPECT_TRUE(says(
      resume({"training.batch_size=32"}),
      {"32 samples per step instead of 16; schedule", "training.batch_size is 32 instead of 16"}));
  expect_rates_of("two");
  // More steps than the epochs have are no limit; fewer make the schedule one of steps.
  EXPECT_TRUE(says(resume({"-n", "2", "training.max_steps=1000"}),
                   {"schedule and epoch go on where they were"}));
  expect_rates_of("two");
  EXPECT_THAT(resume({"-n", "2", "training.max_steps=60", "training.n_epochs=8"}),
              AllOf(HasSubstr("the schedule after as many steps as were done"),
                    Not(HasSubstr("schedule and epoch"))));
  EXPECT_EQ(newest().step, 60);
  EXPECT_NEAR(history().steps()[50].lr, .001 * (1 + std::cos(std::numbers::pi * 50 / 60)), 1e-9);
}

TEST_F(TrainResume, WithinAnEpochToo) {
  have_run({cosine, "checkpoint.every_steps=10"});
  ASSERT_EQ(train({cosine, "checkpoint.every_steps=10", "-n", "2", "--resume=60"}).exit_code, 0);
  const auto record = history();
  // 240 of the third epoch's 400 samples were left, 8 steps of 32; its first is the schedule's 32nd
  // of 52.
  EXPECT_EQ(record.epochs()[3].step, 68);
  EXPECT_EQ(record.epochs()[4].step, 81);
  const auto rate = [](double step) { return .001 * (1 + std::cos(std::numbers::pi * step / 52)); };
  EXPECT_NEAR(record.steps()[60].lr, rate(31), 1e-9);
  EXPECT_NEAR(record.epochs()[4].lr, rate(51), 1e-9);
}

TEST_F(TrainResume, OtherSettingsAreSaid) {
  have_run({"training.n_epochs=1"});
  const auto result = train({"--resume", "training.n_epochs=2", "optimizer.lr=0.5"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("optimizer.lr is 0.5 instead of 0.002"),
                    HasSubstr("training.n_epochs is 2 instead of 1"),
                    HasSubstr("learning rate 0.5 instead of 0.002"), Not(HasSubstr("output_dir"))));
  EXPECT_TRUE(says(text_of("run/config.yaml"), {"lr: 0.5"}));
}

TEST_F(TrainResume, AnotherOrderOfSamplesIsRefusedUnlessItIsWanted) {
  have_run(two_epochs);
  const auto config_before = text_of("run/config.yaml"),
             history_before = text_of("run/history.json");
  const std::vector<std::vector<std::string>> others = {{"--resume=25", "seed=2"},
                                                        {"--resume=25", "data.n_train=300"},
                                                        {"--resume=25", "data.shuffle=false"},
                                                        {"--resume=30", "training.batch_size=8"},
                                                        {"--resume=30", "seed=2", "-n", "2"}};
  for (const auto& other : others) {
    EXPECT_TRUE(is_refused(train(other), {" instead of ", "--allow-data-change"})) << other[1];
  }
  write_small_mnist(folder / "more", 416, 100);
  const std::string elsewhere = "data.path=" + (folder / "more").string();
  EXPECT_TRUE(
      says(train({"--resume=25", elsewhere}).errors, {"416 training samples instead of 400"}));
  EXPECT_EQ(text_of("run/config.yaml"), config_before);
  EXPECT_EQ(text_of("run/history.json"), history_before);
  // The same samples may lie somewhere else.
  copy(data(), "moved");
  const std::string moved = "data.path=" + (folder / "moved").string();
  EXPECT_TRUE(succeeds(
      train({"--resume=25", moved, "training.n_epochs=2", "seed=2", "--allow-data-change"}),
      {"samples come in another order than so far: seed is 2"}));
}

TEST_F(TrainResume, AFinishedRunSaysThatItIsAndHowToGoOn) {
  have_run({});
  const auto before = text_of("run/history.json");
  // Whatever is asked for.
  for (const std::vector<std::string>& again :
       std::vector<std::vector<std::string>>{{"--resume"},
                                             {"-n", "2", "--max-restarts", "2", "--resume"},
                                             {"--resume", "training.n_epochs=1"},
                                             {"--resume=25", "training.n_epochs=1"}}) {
    EXPECT_TRUE(
        succeeds(train(again), {(folder / "run").string() + " holds a finished run: 4 epochs, 100 "
                                                            "steps; best validation accuracy",
                                "--resume training.n_epochs=8"}));
  }
  EXPECT_EQ(text_of("run/history.json"), before);
  // As a run leaves them that is killed when all is done.
  for (const char* lock : {".kolo.lock", ".kolo-rank0.lock"}) {
    testing::write_file(folder / "run" / lock, "progress -\nhost h\nprocess 1\ntoken 1-a\n");
    EXPECT_EQ(train({"--resume"}).exit_code, 0);
    EXPECT_FALSE(std::filesystem::exists(folder / "run" / lock)) << lock;
  }
  EXPECT_EQ(train({"--resume", "training.n_epochs=5"}).exit_code, 0);
  EXPECT_EQ(history().epochs().size(), 6U);
}

TEST_F(TrainResume, LessThanAStoppedRunHasDoneIsRefused) {
  const auto stopped = run_kolo_and(
      arguments({"training.n_epochs=500", "checkpoint.every_steps=1"}), [&](pid_t kolo) {
        if (wait_for_checkpoint(60)) ::kill(kolo, SIGTERM);
      });
  ASSERT_EQ(stopped.exit_code, 75) << stopped.errors;
  const auto before = text_of("run/history.json");
  for (const char* ranks : {"1", "2"}) {
    EXPECT_TRUE(is_refused(
        train({"-n", ranks, "--resume", "training.n_epochs=1"}),
        {"has done more than training.n_epochs: 1", "or go on from an earlier checkpoint"}));
  }
  EXPECT_TRUE(says(train({"--resume", "training.max_steps=20"}).errors,
                   {"has done more than training.max_steps: 20"}));
  EXPECT_EQ(text_of("run/history.json"), before);
}

TEST_F(TrainResume, WhatIsGoneOnFromInPlaceOfADamagedOneIsLookedAtToo) {
  have_run(two_epochs);
  copy("run", "whole");
  const auto flip = [](const std::filesystem::path& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const char flipped = static_cast<char>(file.peek() ^ 4);
    file.seekp(-1, std::ios::end);
    file.put(flipped);
  };
  flip(checkpoint(50).parent_path() / "model.safetensors");
  const auto before = text_of("run/config.yaml");
  for (const char* ranks : {"1", "2"}) {
    EXPECT_TRUE(is_refused(
        train({"-n", ranks, "--resume", "training.n_epochs=3", "training.batch_size=20"}),
        {"training.batch_size is 20 instead of 16"}))
        << ranks;
  }
  EXPECT_EQ(text_of("run/config.yaml"), before);
  // A run whose last checkpoint is damaged is not finished.
  ASSERT_TRUE(succeeds(train(joined(two_epochs, {"--resume"})), {"step-00000040", "is damaged"}));
  expect_same_weights("whole", "run");
  expect_same_records("whole", "run");
}

TEST_F(TrainResume, AnEarlierCheckpointCanBeNamedAndWhatLiesBehindItIsDropped) {
  have_run({}, "whole");
  const auto best = store("whole").best().value();
  const auto named = (folder / "run" / "checkpoints" / "step-00000050").string() + "/";
  for (const std::string& choice : {std::string("25"), named, std::string("best")}) {
    SCOPED_TRACE(choice);
    copy("whole", "run");
    const auto result = train({"--resume", choice});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    if (choice == "best" && best.step == 100)
      EXPECT_TRUE(says(result.output, {"holds a finished run"}));
    else
      EXPECT_TRUE(says(result.output, {"resuming from"}));
    EXPECT_FALSE(std::filesystem::exists(folder / "run.1"));
    expect_same_records("whole", "run");
    expect_same_events("whole", "run");
  }
}

TEST_F(TrainResume, AnotherRunsCheckpointBeginsARunOfItsOwn) {
  have_run(two_epochs, "first");
  have_run({"training.n_epochs=1"}, "run");
  const auto before = text_of("first/history.json");
  ASSERT_TRUE(
      succeeds(train({"--resume", folder / "first" / "checkpoints" / "step-00000050"}, "run"),
               {"held an earlier run; it is now"}));
  EXPECT_EQ(newest().step, 100);
  EXPECT_EQ(history().epochs().front().step, 75);
  EXPECT_EQ(text_of("first/history.json"), before);
}

TEST_F(TrainResume, WhatCannotBeGoneOnWithIsRefusedByName) {
  have_run({"training.n_epochs=1"});
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
    EXPECT_TRUE(is_refused(
        train({"--resume=25"}),
        {checkpoint(25).parent_path().string() + " can't be used", "model.safetensors"}));
  }
  EXPECT_TRUE(is_refused(train({"--resume=best"}), {checkpoint(25).parent_path().string()}));
  EXPECT_TRUE(is_refused(train({"--resume"}),
                         {"holds no checkpoint that can be used", "run without --resume"}));
}

// The last step of the second epoch makes all parameters infinite.
constexpr const char* spoiling = "training.lr_schedule=[{start_epoch: 1.96, multiplier: 1e300}]";

TEST_F(TrainResume, ASpoiltNetworkIsNotSavedAndTheRunFails) {
  for (const char* epochs : {"training.n_epochs=2", "training.n_epochs=3"}) {
    std::filesystem::remove_all(folder / "run");
    const auto spoilt = train({epochs, spoiling});
    EXPECT_TRUE(
        ends_with(spoilt, 1, {"not finite after step 50, the last of epoch 2", "--resume best"}));
    EXPECT_EQ(newest().step, 25);
  }
  EXPECT_EQ(train({"training.n_epochs=3", "--resume"}).exit_code, 0);
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
