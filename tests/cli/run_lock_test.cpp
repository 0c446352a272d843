// One run per folder: what a second one is told, and what is never moved.
#include "cli/small_runs.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using ::testing::UnorderedElementsAre;

class RunLockProgram : public SmallRuns {
 protected:
  static constexpr const char* endless = "training.n_epochs=100000";

  // Starts two endless runs at the same moment; returns their exit codes and output. The run that
  // gets the folder is stopped once the other has given up and it has saved something.
  struct Both {
    std::vector<int> codes;
    std::string text;
  };
  [[nodiscard]] Both at_once(const std::vector<std::string>& words, bool moves_another) const {
    const auto start = [&](int number) {
      std::string text = "\"" KOLO_PROGRAM "\"";
      for (const auto& word : words) text += " '" + word + "'";
      return fmt::format(
          "(sh -c 'echo $$ >{0}.pid; exec \"$@\"' sh {1} >{0} 2>&1; echo $? >{0}.code)", number,
          text);
    };
    for (const char* left : {"1.code", "2.code"}) std::filesystem::remove(folder / left);
    const auto script =
        fmt::format("cd {}\n{} & {} &\nwait", folder.path().string(), start(1), start(2));
    const std::jthread other([&](const std::stop_token& end) {
      int loser = 0;
      while (loser == 0 && !end.stop_requested()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        for (const int each : {1, 2})
          if (std::filesystem::exists(folder / fmt::format("{}.code", each))) loser = each;
      }
      if (loser == 0) return;
      EXPECT_TRUE(!moves_another || wait_for_file(folder / "run.1"));
      while (store().folders().size() < 2 && !end.stop_requested())
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ::kill(static_cast<pid_t>(std::stol(text_of(fmt::format("{}.pid", 3 - loser)))), SIGTERM);
    });
    (void)run_process({"sh", "-c", script}, {.deadline = kolo_deadline});
    return {{std::stoi(text_of("1.code")), std::stoi(text_of("2.code"))},
            text_of("1") + text_of("2")};
  }

  // Runs a second command beside an endless run, which is stopped afterwards.
  struct Second {
    int first = 0, second = 0;
    std::string text;
  };
  [[nodiscard]] Second beside(const std::vector<std::string>& first,
                              const std::vector<std::string>& second,
                              const std::string& output = "run") const {
    const auto marker = (folder / "second").string();
    std::string command = "\"" KOLO_PROGRAM "\"";
    for (const auto& word : second) command += " '" + word + "'";
    command += " >" + marker + " 2>&1";
    Second result;
    const auto words = joined(first, {endless, "checkpoint.every_steps=5"});
    const auto end = run_kolo_and(arguments(words, output), [&](pid_t kolo) {
      EXPECT_TRUE(wait_for_checkpoint(10, output));
      result.second = WEXITSTATUS(std::system(command.c_str()));
      ::kill(kolo, SIGTERM);
    });
    result.first = end.exit_code;
    result.text = text_of("second");
    EXPECT_EQ(end.left_behind, 0);
    return result;
  }
};

TEST_F(RunLockProgram, ASecondRunIsToldWhoHasTheFolder) {
  const std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> pairs = {
      {{"-n", "2"}, {"--resume"}}, {{}, {"-n", "2", "--max-restarts", "1", "--resume"}}};
  for (const auto& [first, more] : pairs) {
    std::filesystem::remove_all(folder / "run");
    const auto result = beside(first, arguments(more));
    EXPECT_EQ(result.second, 2) << result.text;
    EXPECT_TRUE(says(result.text, {"output folder " + (folder / "run").string() + " is in use by ",
                                   "process ", ", since 20", "--output DIR"}));
    EXPECT_EQ(result.first, 75) << "the first is not disturbed";
    EXPECT_FALSE(std::filesystem::exists(folder / "run.1"));
    EXPECT_GT(newest().step, 5);
    for (const char* lock : {".kolo.lock", ".kolo-rank0.lock"})
      EXPECT_FALSE(std::filesystem::exists(folder / "run" / lock)) << lock << " is given back";
  }
}

TEST_F(RunLockProgram, OfTwoAtOnceOneWinsWhateverIsInTheFolder) {
  for (const std::vector<std::string>& ranks :
       {std::vector<std::string>{}, {"-n", "2", "--max-restarts", "1"}}) {
    for (const bool is_new : {true, false}) {
      const auto words = joined(ranks, {endless, "checkpoint.every_steps=5"});
      const auto both = at_once(arguments(words), !is_new);
      EXPECT_THAT(both.codes, UnorderedElementsAre(75, 2)) << both.text;
      EXPECT_TRUE(says(both.text, {"in use by"}));
      EXPECT_GT(newest().step, 5);
      EXPECT_NE(std::filesystem::exists(folder / "run.1"), is_new);
    }
    for (const char* name : {"run", "run.1"}) std::filesystem::remove_all(folder / name);
  }
}

// One that saves checkpoints there is told of by them.
TEST_F(RunLockProgram, ARunWhoseFolderIsTakenAwayFails) {
  const auto result = run_kolo_and(arguments({endless, "checkpoint.every_epochs=0"}), [&](pid_t) {
    EXPECT_TRUE(wait_for_file(folder / "run" / "history.json"));
    std::filesystem::rename(folder / "run", folder / "elsewhere");
  });
  EXPECT_FALSE(result.timed_out);
  EXPECT_TRUE(ends_with(result, 1, {"is not this run's any more", "was removed or renamed"}));
  EXPECT_FALSE(std::filesystem::exists(folder / "run")) << "nothing is made anew";
}

TEST_F(RunLockProgram, OnlyWhatKoloHasMadeIsMovedAside) {
  have_run({"training.n_epochs=1"});
  copy("run", "project");
  std::filesystem::remove(folder / "project" / ".kolo-run");
  folder.write("project/main.cpp", "int main() {}");
  EXPECT_TRUE(
      is_refused(train({}, "project"), {"it also holds main.cpp", "--output DIR", "--resume"}));
  EXPECT_FALSE(std::filesystem::exists(folder / "project.1"));

  std::vector<std::string> here = {KOLO_PROGRAM};
  for (const auto& word : arguments({}, "run")) here.push_back(word);
  EXPECT_TRUE(is_refused(run_process(here, {.deadline = std::chrono::seconds(60),
                                            .working_directory = folder / "run"}),
                         {"the folder that you are in"}));

  std::filesystem::create_symlink(folder / "run", folder / "link");
  EXPECT_TRUE(says(train({}, "link").errors, {"it is a link"}));

  folder.write("sources/config.yaml", "mine");
  EXPECT_TRUE(says(train({}, "sources").errors, {"config.yaml, which would be overwritten"}));
  EXPECT_EQ(text_of("sources/config.yaml"), "mine");

  // Other files in a folder that kolo has made are moved with it.
  folder.write("run/notes.txt", "mine too");
  ASSERT_EQ(train({"training.n_epochs=1"}).exit_code, 0);
  EXPECT_EQ(text_of("run.1/notes.txt"), "mine too");
}

TEST_F(RunLockProgram, WhatIsNotKolosIsNeitherWrittenNorTakenForARuns) {
  const auto expect_refused = [&](const std::string& name, const std::vector<std::string>& ranks) {
    SCOPED_TRACE(name);
    const auto file = folder.write("own/" + name, "mine");
    folder.write("own/main.py", "print()");
    const auto refused = train(ranks, "own");
    EXPECT_EQ(refused.exit_code, 2);
    const std::string first = *std::filesystem::path(name).begin();
    EXPECT_TRUE(says(refused.errors,
                     {"holds " + first + ", which would be", "was not made by kolo", "--output"}));
    EXPECT_EQ(read_text_file(file), "mine");
    std::filesystem::remove_all(folder / "own");
  };
  for (const char* name :
       {"checkpoints/step-00000001/weights.bin", "timeline/notes.txt", "history.json", "out.log",
        "run.json", "model.txt", "model.pt", "timeline.json", "events.out.tfevents.1.mine"})
    expect_refused(name, {});
  expect_refused("history.json", {"-n", "2"});
  expect_refused("history.json", {"-n", "2", "--max-restarts", "1"});
  // Beside files that are called otherwise a run has its place.
  folder.write("own/main.py", "mine");
  EXPECT_EQ(train({"training.n_epochs=1"}, "own").exit_code, 0);
  EXPECT_EQ(text_of("own/main.py"), "mine");
  // Nor has one among what another run writes.
  for (const auto* name : {"own/checkpoints", "own/checkpoints/mine", "own/timeline/mine/"}) {
    EXPECT_TRUE(is_refused(train({}, name), {"is another run's folder"})) << name;
  }
}

TEST_F(RunLockProgram, WhatIsLeftOfARunIsMovedAsideToo) {
  have_run({"training.n_epochs=1"});
  std::filesystem::remove(folder / "run" / "config.yaml");
  ASSERT_EQ(train({"training.n_epochs=1"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder / "run.1" / "history.json"));
}

TEST_F(RunLockProgram, OfATimelineOnlyTheRanksFilesGo) {
  ASSERT_EQ(train({"training.n_epochs=1", "--timeline"}).exit_code, 0);
  for (const char* name : {"notes.txt", "rank-00007.json", "rank-mine.json"})
    folder.write(std::string("run/timeline/") + name, "mine");
  ASSERT_EQ(train({"training.n_epochs=2", "--resume"}).exit_code, 0);
  EXPECT_EQ(text_of("run/timeline/notes.txt"), "mine");
  EXPECT_EQ(text_of("run/timeline/rank-mine.json"), "mine");
  for (const char* name : {"rank-00000.json", "rank-00007.json"})
    EXPECT_FALSE(std::filesystem::exists(folder / "run" / "timeline" / name)) << name;
}

TEST_F(RunLockProgram, ARunInAFolderBelowIsNotMoved) {
  have_run({"training.n_epochs=1"});
  const auto result = beside({}, arguments({"training.n_epochs=1"}), "run/sub");
  EXPECT_EQ(result.second, 2);
  EXPECT_TRUE(
      says(result.text, {(folder / "run/sub").string() + " in it is in use by", "--output DIR"}));
  EXPECT_EQ(result.first, 75) << "the first is not disturbed";
  EXPECT_FALSE(std::filesystem::exists(folder / "run.1"));
}

// As other ranks and other runs make for a moment, to see whether the folder can be written.
TEST_F(RunLockProgram, KolosOwnTrialsAreNobodyElsesFiles) {
  have_run({"training.n_epochs=1"});
  std::filesystem::remove(folder / "run" / ".kolo-run");
  std::filesystem::create_directory(folder / "run" / ".kolo-2E4nYB");
  EXPECT_TRUE(succeeds(train({"training.n_epochs=1"})));
  EXPECT_TRUE(std::filesystem::exists(folder / "run.1"));
}

bool has_open(pid_t process, const std::string& name) {
  std::error_code gone, closed;
  const std::filesystem::path files = fmt::format("/proc/{}/fd", process);
  std::filesystem::directory_iterator file(files, gone);
  for (; file != std::filesystem::directory_iterator(); file.increment(gone))
    if (std::filesystem::read_symlink(*file, closed).filename() == name) return true;
  return false;
}

// The launcher alone is killed; its ranks have a moment to live.
TEST_F(RunLockProgram, ARunKilledWithoutAWordGoesOnAtOnce) {
  for (const std::vector<std::string>& restarts :
       {std::vector<std::string>{}, {"--max-restarts", "2"}}) {
    const auto more =
        joined(restarts, {"-n", "2", "checkpoint.every_steps=5", "training.n_epochs=8"});
    bool is_killed = false;
    while (!is_killed) {  // again where the run has ended before
      std::filesystem::remove_all(folder / "run");
      (void)run_kolo_and(arguments(more), [&](pid_t kolo) {
        EXPECT_TRUE(wait_for_checkpoint(10));
        const auto rank = process_of_rank(1, folder / "run");
        // A rank that is ending must not keep what the launcher held.
        EXPECT_FALSE(rank && has_open(*rank, ".kolo.lock"));
        is_killed = rank && ::kill(kolo, SIGKILL) == 0;
      });
      if (HasFailure()) return;
    }
    EXPECT_TRUE(succeeds(train(joined(more, {"--resume"}))));
    EXPECT_EQ(newest().step, 104);
  }
}

}  // namespace
}  // namespace kolo::testing
