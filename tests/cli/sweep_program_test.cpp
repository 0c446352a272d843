// kolo sweep, end to end through the binary.
#include <nlohmann/json.hpp>

#include "cli/small_runs.h"
#include "kolo/train/observe/sweep.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;

class SweepProgram : public SmallRuns {
 protected:
  [[nodiscard]] std::vector<std::string> sweep_words(const std::vector<std::string>& more) const {
    return joined({"sweep", config, "--output", folder / "sweep", "-n", "1", "--trials-at-once",
                   "2", "--oversubscribe"},
                  more);
  }
  [[nodiscard]] ProcessResult sweep(const std::vector<std::string>& more) const {
    return run_kolo(sweep_words(more));
  }
  [[nodiscard]] Sweep read() const { return Sweep::read(folder / "sweep/sweep.json"); }
  [[nodiscard]] History history_of(const Trial& trial) const {
    return history("sweep/" + trial.folder);
  }
};

TEST_F(SweepProgram, FourTrialsOfWhichOneFails) {
  const std::vector<std::string> words = {"optimizer.lr=0.002,1e30", "training.batch_size=16,64",
                                          "training.n_epochs=1"};
  const auto result = sweep(words);
  EXPECT_EQ(result.exit_code, 1) << result.errors;
  const auto done = read();
  ASSERT_EQ(done.trials.size(), 4U);
  EXPECT_EQ(done.trials[0].state, TrialState::done);
  EXPECT_EQ(done.trials[1].state, TrialState::done);
  EXPECT_EQ(done.trials[2].state, TrialState::failed);
  EXPECT_TRUE(says(done.trials[2].problem, {"status 1", "learning rate that is too high"}));
  EXPECT_EQ(done.metric, "val_accuracy");
  EXPECT_EQ(history_of(done.trials[1]).epochs().back().step, 400 / 64 + 1);
  EXPECT_TRUE(
      says(result.output, {"failed: status 1", "this trains it alone", "kolo train " + config}));
  EXPECT_TRUE(says(text_of("sweep/report.html"), {"What the settings do"}));
  EXPECT_TRUE(succeeds(run_kolo({"report", folder / "sweep", "-o", folder / "page.html"})));

  const std::string is_sweep =
      "is a sweep, whose runs are in " + (folder / "sweep/trials: 001-").string();
  EXPECT_TRUE(is_refused(run_kolo({"eval", folder / "sweep"}), {"eval: ", is_sweep}));
  EXPECT_TRUE(is_refused(run_kolo({"predict", folder / "sweep", data()}), {"predict: ", is_sweep}));
  EXPECT_TRUE(is_refused(train({}, "sweep"), {"output folder", is_sweep, "--output DIR"}));

  EXPECT_EQ(sweep(words).exit_code, 1);  // the failed ones once more, and no others
  EXPECT_EQ(read().trials[2].failures, 2);
  const auto before = read().to_json();
  EXPECT_TRUE(ends_with(sweep(words), 1, {"0 to do"}));
  EXPECT_EQ(read().to_json(), before);
}

TEST_F(SweepProgram, TrialsThatWereStoppedGoOn) {
  // All checkpoints kept, however the machine shares its time: the second trial may not even have
  // begun when the first one has a checkpoint.
  const std::vector<std::string> words = {"optimizer.lr=0.002,0.001", "training.n_epochs=15",
                                          "device.intra_threads=1", "checkpoint.keep=100"};
  ProcessResult stopped;
  do {  // again where the first trial was done before the signal
    fs::remove_all(folder / "sweep");
    stopped = run_kolo_and(sweep_words(words), [&](pid_t process) {
      EXPECT_TRUE(wait_for_checkpoint(25, "sweep/trials/001-lr-0.002"));
      ::kill(process, SIGTERM);
    });
  } while (read().trials[0].state == TrialState::done);
  EXPECT_TRUE(ends_with(stopped, 75, {"the same command goes on"}));
  EXPECT_EQ(read().trials[0].state, TrialState::stopped);
  EXPECT_TRUE(succeeds(sweep(words)));
  for (const auto& trial : read().trials) EXPECT_EQ(trial.epochs, 15);
  EXPECT_TRUE(says(text_of("sweep/trials/001-lr-0.002/out.log"), {"resuming from"}));
  ASSERT_EQ(train({"training.n_epochs=15", "checkpoint.keep=100"}, "whole").exit_code, 0);
  expect_same_records("whole", "sweep/trials/001-lr-0.002");
}

TEST_F(SweepProgram, StopAfterEpochsKeepsTheSchedule) {
  EXPECT_TRUE(is_refused(train({"checkpoint.every_epochs=0", "--stop-after-epochs", "3"}),
                         {"checkpoint.every_epochs: 0, so that there are no checkpoints, "
                          "but a run that stops after"}));
  have_run({"training.lr_decay=cosine"}, "whole");
  const auto part = train({"training.lr_decay=cosine", "--stop-after-epochs", "3"});
  EXPECT_EQ(part.exit_code, 75) << part.errors;
  EXPECT_TRUE(says(part.output, {"stopped by --stop-after-epochs 3 at step 75"}));
  EXPECT_EQ(history().epochs().back().epoch, 3);
  const auto same = train({"training.lr_decay=cosine", "--stop-after-epochs", "3", "--resume"});
  EXPECT_EQ(same.exit_code, 75) << "there already";
  EXPECT_TRUE(succeeds(train({"training.lr_decay=cosine", "--stop-after-epochs", "4", "--resume"})))
      << "the last is the end";
  expect_same_records("whole", "run");
}

TEST_F(SweepProgram, APublishedValueStandsBesideTheSeeds) {
  const auto seeds = [&](const std::string& target) {
    return sweep({"seed=1,2", "training.n_epochs=1", "--target", target});
  };
  ASSERT_TRUE(succeeds(seeds("0.5")));
  const auto json = nlohmann::json::parse(text_of("sweep/sweep.json"));
  EXPECT_EQ(json["target"], 0.5);
  const double first = json["trials"][0]["last"], second = json["trials"][1]["last"];
  EXPECT_NEAR(json["last_epochs"]["mean"].get<double>(), (first + second) / 2, 1e-12);
  const auto other = seeds("0.25");
  EXPECT_TRUE(says(other.errors, {"0 to do"})) << "it changes no training";
  EXPECT_EQ(read().target, 0.25);
  EXPECT_TRUE(is_refused(seeds("94.9"), {"got 94.9; 94.9 % is 0.949"}));
}

TEST_F(SweepProgram, SaysWhatItWouldDoAndWhatIsWrong) {
  EXPECT_TRUE(succeeds(
      sweep({"--dry-run", "optimizer.lr=0.1,0.2", "device.intra_threads=1"}),
      {"trial 2: learning rate 0.2\n  kolo train ", "optimizer.lr=0.2", "trials/002-lr-0.2"}));
  const auto refused = [&](const std::vector<std::string>& words, const auto& what) {
    const auto result = sweep(words);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.errors, what);
  };
  refused({"optimizer.lr=0.1"}, HasSubstr("nothing varies"));
  refused({"optimizer.rl=0.1,0.2"}, AllOf(HasSubstr("trial 1 (rl 0.1)"), HasSubstr("lr")));
  refused({"optimizer.lr=0.1..0.2"}, HasSubstr("add --random N"));
  EXPECT_FALSE(fs::exists(folder / "sweep"));
}

}  // namespace
}  // namespace kolo::testing
