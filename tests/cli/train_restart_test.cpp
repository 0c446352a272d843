// kolo train --max-restarts: a rank is killed, and training goes on as if nothing had been.
#include <csignal>

#include <nlohmann/json.hpp>

#include "cli/small_runs.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

class TrainRestart : public SmallRuns {
 protected:
  TrainRestart()
      : SmallRuns(
            "optimizer: {name: adam, lr: 0.002}\n"
            "training: {batch_size: 16, n_epochs: 12}\n"
            "checkpoint: {every_epochs: 0, every_steps: 5, keep: 50}\n") {}

  // Runs kolo, of which this rank is killed as soon as `wait` has waited for the moment; again
  // where the run has ended before.
  [[nodiscard]] ProcessResult killed(
      int rank, const std::vector<std::string>& words, const std::function<bool()>& wait,
      const std::function<void()>& prepare = [] {}) const {
    while (true) {
      std::filesystem::remove_all(folder / "run");
      prepare();
      bool is_killed = false;
      auto result = run_kolo_and(arguments(words), [&](pid_t) {
        EXPECT_TRUE(wait());
        is_killed = signal_rank(rank, folder / "run", SIGKILL);
      });
      if (is_killed || HasFailure()) return result;
    }
  }

  void expect_equal_runs(const std::string& a, const std::string& b) const {
    expect_same_weights(a, b);
    expect_same_records(a, b);
  }

  [[nodiscard]] std::string log() const { return text_of("run/out.log"); }
};

TEST_F(TrainRestart, AKilledRankCostsTheStepsSinceTheNewestCheckpoint) {
  have_run({"-n", "2"}, "whole");
  const auto result =
      killed(1, {"-n", "2", "--max-restarts", "2"}, [&] { return wait_for_checkpoint(20); });
  ASSERT_EQ(result.exit_code, 0) << result.output << result.errors;
  EXPECT_EQ(result.left_behind, 0);
  // The launcher's or the watch's status, or that of another rank which misses the killed one in
  // the middle of a collective, whichever sees it first.
  const std::string again = "; starting it again (restart 1 of 2)";
  const auto message = ::testing::AnyOf(HasSubstr("the job ended with status 137 (Killed)" + again),
                                        HasSubstr("the job ended with status 1" + again));
  EXPECT_THAT(result.errors, message);
  EXPECT_TRUE(says(result.output, {"resuming from"}));
  EXPECT_THAT(log(), AllOf(message, HasSubstr("resuming from")));
  EXPECT_FALSE(std::filesystem::exists(folder / "run.1")) << "the folder is kept";
  expect_equal_runs("whole", "run");
  // Every start records the command as it was typed.
  const auto starts = nlohmann::json::parse(text_of("run/run.json"))["starts"];
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0]["command"], starts[1]["command"]);
  EXPECT_FALSE(says(log(), {"--resume"}));
}

TEST_F(TrainRestart, BeforeTheFirstCheckpointItStartsFromTheBeginning) {
  // The one checkpoint is due at the end of 400 steps.
  const std::vector<std::string> late = {"-n",
                                         "2",
                                         "training.batch_size=1",
                                         "training.n_epochs=2",
                                         "checkpoint.every_epochs=2",
                                         "checkpoint.every_steps=0"};
  ASSERT_EQ(train(late, "whole").exit_code, 0);
  ProcessResult result;
  do {  // again where the kill came after the checkpoint
    result = killed(
        0, joined(late, {"--max-restarts", "1"}),
        [&] {
          return wait_for_file(folder / "run.1") &&
                 wait_for_text(folder / "run" / "out.log", "before training");
        },
        [&] {
          std::filesystem::remove_all(folder / "run.1");
          have_run({"training.n_epochs=1"});
        });
    if (HasFailure()) return;
  } while (says(result.output, {"resuming"}));
  ASSERT_EQ(result.exit_code, 0) << result.output << result.errors;
  EXPECT_THAT(result.output, AllOf(HasSubstr("held an earlier run"), Not(HasSubstr("resuming"))));
  EXPECT_TRUE(says(result.errors, {"starting from the beginning"}));
  EXPECT_TRUE(says(log(), {"starting from the beginning"}));
  EXPECT_FALSE(std::filesystem::exists(folder / "run.2"));
  EXPECT_EQ(History::read(folder / "run.1" / "history.json").epochs().size(), 2U);
  expect_equal_runs("whole", "run");
  expect_same_events("whole", "run");
  EXPECT_TRUE(std::filesystem::exists(folder / "run" / "attempt.1" / "history.json"));
  EXPECT_FALSE(count_events(folder / "run" / "attempt.1").empty()) << "nothing is thrown away";
}

TEST_F(TrainRestart, WithoutCheckpointsItStartsFromTheBeginningAndSaysSoAtTheStart) {
  const auto begun = [&] { return wait_for_text(folder / "run" / "out.log", "epoch 1/"); };
  const auto result = killed(
      1,
      {"-n", "2", "--max-restarts", "1", "checkpoint.every_epochs=0", "checkpoint.every_steps=0"},
      begun);
  ASSERT_TRUE(succeeds(result, {"warning: checkpoint.every_epochs is 0: if a rank fails"}));
  EXPECT_TRUE(says(result.errors, {"there are no checkpoints, as checkpoint.every_epochs is 0: "
                                   "starting from the beginning"}));
  EXPECT_EQ(History::read(folder / "run" / "history.json").epochs().size(), 13U) << "all of them";

  const auto stopped =
      run_kolo_and(arguments({"-n", "2", "checkpoint.every_epochs=0", "checkpoint.every_steps=0",
                              "training.n_epochs=1000"}),
                   [&](pid_t kolo) {
                     EXPECT_TRUE(wait_for_file(folder / "run.1") && begun());
                     ::kill(kolo, SIGTERM);
                   });
  EXPECT_EQ(stopped.exit_code, 75) << stopped.output << stopped.errors;
  EXPECT_THAT(stopped.errors, AllOf(HasSubstr("kolo: SIGTERM: the ranks stop; a second time"),
                                    Not(HasSubstr("save a checkpoint"))));
}

TEST_F(TrainRestart, NothingIsRemovedWhereNoCheckpointCanBeUsed) {
  ASSERT_TRUE(succeeds(
      train({"training.n_epochs=1", "checkpoint.every_epochs=1", "checkpoint.every_steps=0"})));
  const auto only = checkpoint(25).parent_path();
  ASSERT_TRUE(std::filesystem::exists(only));
  const auto result =
      run_kolo_and(arguments({"--max-restarts", "1", "--resume", "training.n_epochs=500",
                              "checkpoint.every_epochs=1000", "checkpoint.every_steps=0"}),
                   [&](pid_t) {
                     EXPECT_TRUE(wait_for_text(folder / "run" / "out.log", "going on at step 25"));
                     { std::ofstream(only / "model.safetensors", std::ios::app) << "x"; }
                     EXPECT_TRUE(signal_rank(0, folder / "run", SIGKILL));
                   });
  EXPECT_EQ(result.exit_code, 137) << result.output << result.errors;
  EXPECT_THAT(result.errors, AllOf(HasSubstr("can be used: it is not restarted"),
                                   HasSubstr("step-00000025"), Not(HasSubstr("restart 1"))));
  EXPECT_TRUE(std::filesystem::exists(only / "manifest.json"));
  EXPECT_GT(History::read(folder / "run" / "history.json").epochs().size(), 1U);
}

TEST_F(TrainRestart, AFolderThatIsTakenAwayIsNotMadeAnew) {
  const auto result = run_kolo_and(
      arguments({"--max-restarts", "2", "-n", "2", "training.n_epochs=100000"}), [&](pid_t) {
        // Rank 0 alone writes there.
        EXPECT_TRUE(wait_for_checkpoint(5));
        std::filesystem::rename(folder / "run", folder / "elsewhere");
      });
  EXPECT_EQ(result.exit_code, 1) << result.output << result.errors;
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("was removed, renamed or taken over"), Not(HasSubstr("restart 1")),
                    HasSubstr("kolo: rank 0 ("), Not(HasSubstr("kolo: rank 1"))));
  EXPECT_EQ(result.errors.find("kolo: rank 0 ("), result.errors.rfind("kolo: rank 0 ("));
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST_F(TrainRestart, OneRankIsWatchedTooAndAResumedRunGoesOnAsOne) {
  const auto result = killed(
      0, {"--max-restarts", "1", "--resume", "training.n_epochs=4"},
      [&] { return wait_for_checkpoint(40); }, [&] { have_run({"training.n_epochs=1"}); });
  ASSERT_TRUE(ends_with(result, 0, {"restart 1 of 1"}));
  EXPECT_EQ(History::read(folder / "run" / "history.json").epochs().size(), 5U);
}

TEST_F(TrainRestart, AStopOnRequestIsNoReasonToStartAgain) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    const auto output = fmt::format("stopped-{}", signal);
    const auto result =
        run_kolo_and(arguments({"-n", "2", "--max-restarts", "2", "training.n_epochs=500"}, output),
                     [&](pid_t kolo) {
                       if (wait_for_checkpoint(5, output)) ::kill(kolo, signal);
                     });
    EXPECT_EQ(result.exit_code, 75) << result.output << result.errors;
    EXPECT_FALSE(says(result.errors, {"restart"}));
    EXPECT_TRUE(says(result.errors, {signal == SIGTERM ? "kolo: SIGTERM: the ranks save a "
                                                         "checkpoint and stop"
                                                       : "kolo: SIGUSR1: the ranks save"}));
    EXPECT_TRUE(says(result.output, {"stopped on request at step"}));
    EXPECT_EQ(result.left_behind, 0);
  }
}

TEST_F(TrainRestart, StopsBeforeATimeThatIsGiven) {
  const auto result =
      train({"-n", "2", "--max-restarts", "1", "--stop-before", "+20s", "training.n_epochs=100000",
             "checkpoint.every_steps=0", "checkpoint.every_epochs=1000"});
  EXPECT_EQ(result.exit_code, 75) << result.output << result.errors;
  EXPECT_TRUE(says(result.output, {"stopped by --stop-before 20"}));
  EXPECT_FALSE(newest().content.model.empty()) << "what there is is saved";
  EXPECT_TRUE(is_refused(run_kolo(arguments({"--stop-before", "noon"})),
                         {"--stop-before: expected a clock time such as 18:30"}));
  EXPECT_EQ(run_kolo(arguments({"--stop-before", "2020-01-01T12:00"})).exit_code, 2);
}

TEST_F(TrainRestart, WrongInputIsNoReasonToStartAgain) {
  const auto wrong = train({"-n", "2", "--max-restarts", "2", "model.name=x"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_FALSE(says(wrong.errors, {"restart"}));
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  EXPECT_TRUE(is_refused(run_kolo(arguments({"--max-restarts", "2"}),
                                  {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}}),
                         {"can't start them again"}));
}

}  // namespace
}  // namespace kolo::testing
