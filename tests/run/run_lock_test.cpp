// Restoring of a run's folder where no run has begun.
#include "run/run_lock.h"

#include <filesystem>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "run/run_folder.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;

class FolderOfNoRun : public ::testing::Test {
 protected:
  // The folder of a finished run.
  FolderOfNoRun() {
    run.make();
    folder.write("run/config.yaml", "");
    folder.write("run/history.json", "the earlier one");
  }
  void expect_earlier_run_as_it_was() const {
    EXPECT_EQ(read_text_file(run.history()), "the earlier one");
    EXPECT_TRUE(fs::exists(run.path / ".kolo-run"));
    EXPECT_FALSE(fs::exists(folder / "run.1"));
    for (const auto* name : RunLock::file_names) EXPECT_FALSE(fs::exists(run.path / name)) << name;
  }

  TemporaryFolder folder;
  RunFolder run{folder / "run"};
};

TEST_F(FolderOfNoRun, AnEarlierRunHasItsNameAgain) {
  {
    const auto lock = RunLock::of_launcher(run, true);
    EXPECT_EQ(lock.moved(), folder / "run.1");
    EXPECT_FALSE(fs::exists(run.history()));
  }
  expect_earlier_run_as_it_was();
  { const auto lock = RunLock::of_rank_0(run, true); }
  expect_earlier_run_as_it_was();
}

TEST_F(FolderOfNoRun, AnEarlierRunHasItsNameAgainAfterAnExceptionToo) {
  const auto fail_after = [&](auto take) {
    EXPECT_THROW(
        {
          const auto lock = take(run, true);
          throw Error("on purpose");
        },
        Error);
    expect_earlier_run_as_it_was();
  };
  fail_after(&RunLock::of_launcher);
  fail_after(&RunLock::of_rank_0);
}

// Rank 0 leaves its lock after an exception, and when it is killed.
TEST_F(FolderOfNoRun, ALockThatRank0HasLeftIsNotInTheWay) {
  {
    const auto lock = RunLock::of_launcher(run, true);
    folder.write(std::string("run/") + RunLock::file_names[1], "progress -\n");
  }
  expect_earlier_run_as_it_was();
}

TEST_F(FolderOfNoRun, RanksThatOutliveTheirLauncherKeepIt) {
  const auto take_writer = [&] {
    return std::make_unique<FolderLock>(run.path,
                                        FolderLockOptions{.name = RunLock::file_names[1]});
  };
  std::unique_ptr<FolderLock> rank_0;
  {
    const auto lock = RunLock::of_launcher(run, true);
    rank_0 = take_writer();
  }
  EXPECT_TRUE(rank_0->is_held());
  EXPECT_TRUE(fs::exists(run.path / ".kolo-run"));
  EXPECT_EQ(read_text_file(folder / "run.1" / "history.json"), "the earlier one");
}

TEST_F(FolderOfNoRun, IsRemovedUnlessItWasThere) {
  fs::create_directories(folder / "there");
  for (const char* name : {"there", "there/new/", "there/around/new"}) {
    { const auto lock = RunLock::of_launcher({folder / name}, true); }
    EXPECT_TRUE(fs::is_empty(folder / "there")) << name;
  }
}

TEST_F(FolderOfNoRun, ARunThatHasBegunStays) {
  {
    const auto lock = RunLock::of_launcher(run, true);
    folder.write("run/config.yaml", "the new one");
  }
  EXPECT_EQ(read_text_file(run.config()), "the new one");
  EXPECT_EQ(read_text_file(folder / "run.1" / "history.json"), "the earlier one");
}

}  // namespace
}  // namespace kolo::testing
