#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

#include "kolo/base/file.h"
#include "support/process.h"
#include "support/says.h"
#include "support/temporary_folder.h"

// Jobs of several ranks, started as the program of tests says: LAUNCHER is start_ranks, whose ranks
// are processes without MPI, or mpirun of tests/support.
namespace kolo::testing {

// A hang counts where the launcher is kolo's; mpirun's own costs half a minute.
[[nodiscard]] inline ProcessResult run_on_ranks(int ranks, const std::vector<std::string>& program,
                                                ProcessOptions options) {
  options.deadline = std::chrono::seconds(30);
  std::vector<std::string> words = {LAUNCHER, std::to_string(ranks)};
  words.insert(words.end(), program.begin(), program.end());
  const bool is_mpis = std::string_view(LAUNCHER).ends_with("mpirun");
  return is_mpis ? run_job(words, options) : run_process(words, options);
}

// Arguments of ending_job, whose rank 1 ends in a way of its own.
struct Ending {
  std::string owner, place, way, setting;
};

[[nodiscard]] inline ProcessResult run_ending(const Ending& ending,
                                              const std::string& watch = "on") {
  ProcessOptions options;
  options.environment = {
      {"KOLO_WATCH", watch}, {"KOLO_WATCH_WARNING", "0"}, {"KOLO_WATCH_LIMIT", "0"}};
  return run_on_ranks(3, {ENDING_JOB, ending.owner, ending.place, ending.way, ending.setting},
                      options);
}

// The others name rank 1, which has ended before them, and leave nothing behind.
inline void expect_early_end(const ProcessResult& result) {
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_THAT(result.errors,
              ::testing::AnyOf(::testing::HasSubstr("can't be completed, because rank 1 "),
                               ::testing::HasSubstr("watch: rank 1 has left")))
      << result.errors;
}

// Environment of a job whose watch warns and ends it after these seconds (0: never), and writes
// into the folder.
[[nodiscard]] inline ProcessOptions watched(const std::string& folder, const std::string& warning,
                                            const std::string& limit) {
  ProcessOptions options;
  options.environment = {
      {"KOLO_WATCH_WARNING", warning}, {"KOLO_WATCH_LIMIT", limit}, {"KOLO_WATCH_FOLDER", folder}};
  return options;
}

// Runs stalling_job on three ranks.
[[nodiscard]] inline ProcessResult run_stalling(const std::vector<std::string>& words,
                                                const ProcessOptions& options) {
  std::vector<std::string> program = {STALLING_JOB};
  program.insert(program.end(), words.begin(), words.end());
  return run_on_ranks(3, program, options);
}

// A rank that begins when the others have said that they wait for it. `owner` of its communicator:
// "kolo" or "program".
inline void expect_that_a_late_rank_is_waited_for(const std::string& owner) {
  const TemporaryFolder folder;
  const auto errors = (folder / "errors").string();
  const auto script = "exec \"$0\" 3 \"$1\" late 1 \"$2\" " + owner + " 2>\"$2\"";
  const auto result =
      run_process({"sh", "-c", script, LAUNCHER, STALLING_JOB, errors},
                  {.environment = {{"KOLO_WATCH_WARNING", "0.2"}, {"KOLO_WATCH_LIMIT", "0"}}});
  const auto said = read_text_file(errors);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 0) << said;
  EXPECT_TRUE(
      says(said, {"kolo: watch: rank 0 of 3 has waited", "in kolo::initialize() for other ranks",
                  "rank 2 of 3: initialization went on after"}));
}

// A rank is stopped at a place of chance: before the collective, or in it, and perhaps with another
// rank that waits for it there.
[[nodiscard]] inline auto names_as_missing(int rank) {
  const auto number = std::to_string(rank);
  return ::testing::AnyOf(::testing::HasSubstr("not arrived: rank " + number),
                          ::testing::HasSubstr("; rank " + number + " has, but"),
                          ::testing::HasSubstr("; rank " + number + ", when last"));
}

}  // namespace kolo::testing
