// kolo train --resume where the default folder is another job's: it says where the runs are.
#include "cli/small_runs.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class RunsBeside : public SmallRuns {
 protected:
  // In the test's folder, without --output.
  [[nodiscard]] ProcessResult train_here(std::vector<std::string> more,
                                         const std::map<std::string, std::string>& job = {}) const {
    more.insert(more.begin(), {"train", config, "device.intra_threads=1", "training.n_epochs=1"});
    return run_in_fork([&] { return run_kolo_program(more); },
                       {.deadline = kolo_deadline,
                        .environment = job,
                        .working_directory = folder.path().string()});
  }

  // A copy of the first run, whose checkpoint was written so many hours ago.
  void copy_run(const std::string& to, int hours_ago) const {
    copy("results/small-5", "results/" + to);
    std::filesystem::last_write_time(
        folder / "results" / to / "checkpoints/step-00000025/manifest.json",
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours_ago));
  }
};

TEST_F(RunsBeside, AreNamedToAnotherJobTheNewestFirst) {
  ASSERT_EQ(train_here({}, {{"PBS_JOBID", "5.server"}}).exit_code, 0);
  ASSERT_TRUE(std::filesystem::exists(folder / "results/small-5"));
  copy_run("small", 2);
  copy_run("small-6_2", 1);
  copy_run("small-other-4", 3);
  copy_run("small-8", 9);
  std::filesystem::remove_all(folder / "results/small-8/checkpoints");

  const std::string beside =
      "holds no checkpoint that can be used; run without --resume to start from the beginning; "
      "runs of the same configuration are in the folders beside it:\n"
      "  results/small-5: job 5, step 25, ";
  for (const auto* const resume : {"--resume", "--resume=best", "--resume=25"}) {
    const auto refused = train_here({resume}, {{"PBS_JOBID", "7.server"}});
    EXPECT_EQ(refused.exit_code, 2) << refused.output;
    EXPECT_THAT(refused.errors,
                AllOf(HasSubstr("results/small-7/checkpoints " + beside),
                      HasSubstr("UTC\n  results/small-6_2: job 6_2, step 25, "),
                      HasSubstr("UTC\n  results/small: of no job, step 25, "),
                      HasSubstr("Go on with one of them: --resume --output results/small-5\n"),
                      Not(HasSubstr("other")), Not(HasSubstr("small-8"))));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "results/small-7"));

  const auto gone_on =
      train_here({"--resume", "--output", "results/small-5"}, {{"PBS_JOBID", "7.server"}});
  EXPECT_EQ(gone_on.exit_code, 0) << gone_on.errors;
  EXPECT_TRUE(says(gone_on.output, {"holds a finished run"}));
}

TEST_F(RunsBeside, AreNamedOutsideOfJobsAndFiveAtMost) {
  ASSERT_EQ(train_here({}, {{"PBS_JOBID", "5.server"}}).exit_code, 0);
  for (int job = 10; job < 16; ++job) copy_run("small-" + std::to_string(job), job);
  const auto refused = train_here({"--resume"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors,
              AllOf(HasSubstr("results/small-5: "), HasSubstr("results/small-13: "),
                    Not(HasSubstr("results/small-14: ")), HasSubstr("and 2 that were written to")));
}

TEST_F(RunsBeside, AreNotThereForTheFirst) {
  const auto refused = train_here({"--resume"}, {{"PBS_JOBID", "5.server"}});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors, AllOf(HasSubstr("results/small-5/checkpoints holds no checkpoint"),
                                    Not(HasSubstr("beside"))));
}

}  // namespace
}  // namespace kolo::testing
