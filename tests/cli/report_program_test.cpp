// kolo report, through the program.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cli/program.h"
#include "kolo/base/file.h"
#include "kolo/train/observe/history.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

class ReportProgram : public ::testing::Test {
 protected:
  // A run that has done so many epochs.
  std::string write_run(const std::string& name, int epochs) const {
    History history(2);
    for (int epoch = 1; epoch <= epochs; ++epoch) {
      history.add(EpochRecord{.epoch = epoch,
                              .step = 10 * epoch,
                              .loss = 2. / epoch,
                              .val_loss = 3. / epoch,
                              .val_accuracy = 1 - 1. / (1 + epoch),
                              .seconds = 2,
                              .time = 1000. + 2 * epoch});
    }
    std::filesystem::create_directories(folder / name);
    history.write(folder / name / "history.json");
    return folder / name;
  }

  [[nodiscard]] static ProcessResult report(const std::vector<std::string>& arguments) {
    return run_kolo(joined({"report"}, arguments));
  }

  void expect_refused(const ProcessResult& result, const std::string& words) const {
    testing::expect_refused(result, words);
    EXPECT_FALSE(std::filesystem::exists(page)) << "nothing is written";
  }

  TemporaryFolder folder;
  std::string page = (folder / "page.html").string();
};

TEST_F(ReportProgram, WritesAPage) {
  const auto first = write_run("first", 3), second = write_run("second", 2);
  EXPECT_TRUE(succeeds(report({first, second, "-o", page}), {fmt::format("{}: 2 runs, ", page)}));
  EXPECT_TRUE(says(read_text_file(page), {"Chart.js v3", "Validation error"}));
}

TEST_F(ReportProgram, SaysWhatIsWrong) {
  const auto run = write_run("run", 3);
  expect_refused(report({(folder / "nowhere").string(), "-o", page}), "nowhere");
  expect_refused(report({run, "-o", (folder / "nowhere/page.html").string()}),
                 "there is no folder");
  for (const auto* const name : {"config.yaml", "run.json"})
    expect_refused(report({folder.write(name, "{}").string(), "-o", page}),
                   "is no history of a run; expected a run's folder, or its history.json");
  expect_refused(report({run, "-o", run}), "is a folder");
  expect_refused(report({}), "RUN... is missing");
}

TEST_F(ReportProgram, WritesOverNothingButItsOwnPages) {
  const auto run = write_run("run", 3);
  const auto history = read_text_file(run + "/history.json");
  const auto expect_kept = [&](const std::string& file, const std::string& words) {
    const auto before = read_text_file(file);
    expect_refused(report({run, "-o", file}), words);
    EXPECT_EQ(read_text_file(file), before) << file;
  };
  expect_kept(run + "/history.json", "ends with .html");
  expect_kept(folder.write("notes.html", "<!DOCTYPE html>mine"), "is not a page of kolo report");
  expect_kept(folder.write("notes", "mine"), "is not a page of kolo report");
  expect_refused(report({run, "-o", (folder / "page.pdf").string()}), "a page of kolo report");
  expect_refused(report({run, "-o", "/dev/null"}), "no file");
  EXPECT_EQ(read_text_file(run + "/history.json"), history);

  // Its own, and an empty file, may be replaced.
  folder.write("page.html", "");
  for (int time = 0; time < 2; ++time) {
    EXPECT_TRUE(succeeds(report({run, "-o", page})));
  }
}

// A run that is in its first epoch, of 100 steps, and has done so many.
void write_begun_run(const std::filesystem::path& folder, int steps) {
  History history(1);
  history.add(EpochRecord{.val_loss = 3, .time = 1000});
  history.begin({.epoch = 1, .last_step = 100});
  for (int step = 10; step <= steps; step += 10)
    history.add(StepRecord{.step = step, .loss = 2. / step, .lr = .1, .time = 1000. + step});
  std::filesystem::create_directories(folder);
  history.write(folder / "history.json");
}

TEST_F(ReportProgram, DrawsARunWithinItsFirstEpoch) {
  write_begun_run(folder / "begun", 30);
  EXPECT_TRUE(succeeds(report({folder / "begun", "-o", page})));
  // Points lie at the fraction of the epoch that is done.
  EXPECT_TRUE(says(read_text_file(page), {"Loss, step by step", R"("epoch":[0.1,0.2,0.3])"}));
}

}  // namespace
}  // namespace kolo::testing
