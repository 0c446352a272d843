// kolo scale, end to end through the binary.
#include <iterator>
#include <sstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/background.h"
#include "cli/program.h"
#include "kolo/base/file.h"
#include "kolo/train/observe/study.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;

class ScaleProgram : public ::testing::Test {
 protected:
  [[nodiscard]] ProcessResult scale(const std::vector<std::string>& arguments,
                                    std::map<std::string, std::string> environment = {}) const {
    return run_kolo(joined({"scale", config_, "--oversubscribe"}, arguments),
                    std::move(environment));
  }
  [[nodiscard]] std::vector<std::string> one_job() const {
    return {"--ranks", "1", "--submit", "slurm", "--job-script", config_};
  }
  [[nodiscard]] Study study() const { return Study::read(study_folder_ / "study.json"); }

  // Environment with a scheduler of two small programs.
  [[nodiscard]] std::map<std::string, std::string> scheduler(const std::string& sbatch,
                                                             const std::string& squeue) const {
    for (const auto& [name, text] :
         {std::pair("bin/sbatch", sbatch), std::pair("bin/squeue", squeue)})
      folder_.write_program(name, "#!/bin/sh\n" + text);
    return {{"PATH", (folder_ / "bin").string() + ":" + std::getenv("PATH")}};
  }

  TemporaryFolder folder_;
  fs::path study_folder_ = folder_ / "digits-weak";
  std::string config_ = folder_.write(
      "digits.yaml", "output_dir: " + (folder_ / "digits").string() +
                         "\n"
                         "data: {name: dummy, input_shape: [1, 28, 28], n_train: 64, n_valid: 16}\n"
                         "model: {name: mnist_net}\n"
                         "optimizer: {name: sgd, lr: 0.01}\n"
                         "training: {batch_size: 8, n_epochs: 2}\n");
};

TEST_F(ScaleProgram, AStudyGrowsAndDoesNothingTwice) {
  ASSERT_EQ(scale({"--ranks", "1"}).exit_code, 0);
  const auto file = study_folder_ / "runs/weak-1/history.json";
  const auto before = fs::last_write_time(file);
  EXPECT_TRUE(
      is_refused(scale({"--ranks", "2", "training.n_epochs=3"}), {"other settings", "--output"}))
      << "another study is not mixed in";
  EXPECT_EQ(study().points.size(), 1U);

  const auto result = scale({"--ranks", "1,2"});
  ASSERT_TRUE(ends_with(result, 0, {"Run 1 of 1: 2 ranks"}));
  EXPECT_EQ(fs::last_write_time(file), before);
  EXPECT_TRUE(
      says(result.output, {"Weak scaling", "efficiency", "results in " + study_folder_.string()}));
  const auto done = study();
  ASSERT_EQ(done.points.size(), 2U);
  for (const auto& point : done.points) {
    EXPECT_EQ(point.state, StudyPointState::done);
    EXPECT_EQ(point.batch_size, 8);
    EXPECT_EQ(point.results.epochs, 2);
    EXPECT_GT(point.results.samples_per_second, 0);
    EXPECT_TRUE(fs::exists(study_folder_ / point.folder / "history.json"));
  }
  EXPECT_EQ(done.points[0].efficiency, 1);
  EXPECT_GT(done.points[1].efficiency, 0);
  const auto history = History::read(study_folder_ / done.points[1].folder / "history.json");
  std::istringstream metrics(read_text_file(study_folder_ / done.points[1].folder / "metrics.dat"));
  const std::vector<double> numbers{std::istream_iterator<double>(metrics), {}};
  ASSERT_EQ(numbers.size(), 10U);  // two epochs
  EXPECT_NEAR(numbers[6], history.epochs().back().loss, 1e-7);
  EXPECT_NEAR(numbers[7], history.epochs().back().val_accuracy, 1e-7);
  EXPECT_EQ(history.n_ranks(), 2);
  EXPECT_EQ(history.epochs().back().step, 2 * 64 / 16);  // the batch of a rank stayed
  EXPECT_TRUE(says(read_text_file(study_folder_ / "report.html"), {"digits"}));
}

TEST_F(ScaleProgram, StrongScalingKeepsTheStepsOfAnEpoch) {
  ASSERT_TRUE(succeeds(scale({"--ranks", "1,2", "--strong", "training.n_epochs=1"})));
  const auto json = nlohmann::json::parse(read_text_file(folder_ / "digits-strong/study.json"));
  EXPECT_EQ(json["scaling"], "strong");
  EXPECT_EQ(json["points"][1]["batch_size"], 4);
  const auto runs = folder_ / "digits-strong/runs";
  EXPECT_EQ(History::read(runs / "strong-1/history.json").epochs().back().step, 8);
  const auto two = History::read(runs / "strong-2/history.json").epochs().back();
  EXPECT_EQ(two.step, 8);
  EXPECT_EQ(two.lr, 0.01);  // not doubled: the batch of all ranks is that of one
}

// The same steps on any number of ranks: to the bit.
TEST_F(ScaleProgram, StrongScalingOfVirtualRanksKeepsTheBatchOfAll) {
  const std::vector<std::string> parts{"--ranks", "1,3", "training.virtual_ranks=4",
                                       "training.batch_size=4", "training.n_epochs=1"};
  EXPECT_TRUE(is_refused(scale(parts), {"training.virtual_ranks", "add --strong"}));
  EXPECT_FALSE(fs::exists(study_folder_));
  ASSERT_TRUE(succeeds(scale(joined(parts, {"--strong"})), {"batch/virtual rank"}));
  std::vector<History> runs;
  for (const auto& point : Study::read(folder_ / "digits-strong/study.json").points)
    runs.push_back(History::read(folder_ / "digits-strong" / point.folder / "history.json"));
  ASSERT_EQ(runs.size(), 2U);
  for (const auto& run : runs) EXPECT_EQ(run.epochs().back().step, 64 / 16);
  EXPECT_EQ(runs[0].epochs().back().loss, runs[1].epochs().back().loss);
}

TEST_F(ScaleProgram, RanksMayShareSamples) {
  const std::string fields = folder_.write(
      "fields.yaml",
      "output_dir: " + (folder_ / "fields").string() +
          "\n"
          "data: {name: nbody, mode: synthetic, box_size: 20, crop: 16, n_train: 4, n_valid: 2}\n"
          "model: {name: unet3d, levels: 3, channels: 4}\n"
          "optimizer: {name: adam, lr: 0.001}\n"
          "training: {loss: l1, global_batch_size: 2, n_epochs: 1}\n");
  ASSERT_TRUE(succeeds(
      run_kolo({"scale", fields, "--oversubscribe", "--parallel", "spatial", "--ranks", "1,2"}),
      {"All ranks share each sample", "[2,1,1]"}));
  EXPECT_TRUE(says(read_text_file(folder_ / "fields-spatial/report.html"),
                   {"Memory per rank against ranks"}));
  const auto study = Study::read(folder_ / "fields-spatial/study.json");
  EXPECT_EQ(study.parallel, "spatial");
  ASSERT_EQ(study.points.size(), 2U);
  const auto& whole = study.points[0];
  const auto& shared = study.points[1];
  EXPECT_EQ(shared.state, StudyPointState::done);
  EXPECT_EQ(shared.folder, "runs/spatial-2x1x1");
  EXPECT_EQ(shared.batch_size, 2);
  EXPECT_GT(shared.results.peak_memory_bytes, shared.kept_bytes);
  EXPECT_NEAR(shared.results.loss, whole.results.loss, 1e-4) << "the same training";
}

TEST_F(ScaleProgram, RefusesSamplesThatCantBeShared) {
  const auto refused = [&](const std::vector<std::string>& arguments) {
    const auto result = scale(joined({"--ranks", "1,2"}, arguments));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_FALSE(fs::exists(folder_ / "digits-spatial"));
    return result.errors;
  };
  EXPECT_TRUE(
      says(refused({"--parallel", "spatial"}), {"model.name", "makes no fields", "unet3d"}));
  EXPECT_TRUE(says(refused({"--parallel", "model"}), {"data", "spatial"}));
  EXPECT_TRUE(
      says(refused({"--parallel", "spatial", "parallel.pipeline=2"}), {"parallel.pipeline"}));
  EXPECT_TRUE(says(refused({"--parallel", "spatial", "training.virtual_ranks=2"}),
                   {"training.virtual_ranks: 2"}));
}

TEST_F(ScaleProgram, WritesOverNothingThatIsNoStudys) {
  for (const std::string name : {"config.yaml", "report.html"}) {
    fs::create_directories(study_folder_);
    std::ofstream(study_folder_ / name) << "precious";
    EXPECT_TRUE(is_refused(scale({"--ranks", "1"}), {"it holds " + name}));
    EXPECT_EQ(read_text_file(study_folder_ / name), "precious");
    fs::remove_all(study_folder_);
  }
}

TEST_F(ScaleProgram, GoesOnWithAStudyThatWasInterrupted) {
  const std::vector<std::string> command{"scale",   config_, "--oversubscribe",
                                         "--ranks", "1,2",   "training.n_epochs=60"};
  ProcessResult stopped;
  do {  // again where the first run was done before the signal
    fs::remove_all(study_folder_);
    stopped = run_kolo_and(command, [&](pid_t process) {
      // The first run has left a checkpoint.
      EXPECT_TRUE(wait_for_file(study_folder_ / "runs/weak-1/checkpoints"));
      ::kill(process, SIGINT);
    });
  } while (study().points[0].state == StudyPointState::done);
  EXPECT_TRUE(ends_with(stopped, 75, {"the same command goes on"}));
  EXPECT_EQ(stopped.left_behind, 0);
  EXPECT_EQ(study().points[0].state, StudyPointState::pending);
  ASSERT_TRUE(succeeds(run_kolo(command)));
  EXPECT_TRUE(says(read_text_file(study_folder_ / "runs/weak-1/out.log"), {"resuming from"}));
  EXPECT_EQ(study().points[0].results.epochs, 60);
  EXPECT_EQ(study().points[1].results.epochs, 60);
}

TEST_F(ScaleProgram, ARunThatFailsDoesNotStopTheOthers) {
  const auto result =
      scale({"--ranks", "1,2", "--lr-scaling", "none", "optimizer.lr=1e30", "training.n_epochs=1"});
  EXPECT_EQ(result.exit_code, 1);
  const auto failed = study();
  ASSERT_EQ(failed.points.size(), 2U);
  for (const auto& point : failed.points) {
    EXPECT_EQ(point.state, StudyPointState::failed);
    EXPECT_TRUE(says(point.problem, {"status 1"}));
  }
}

TEST_F(ScaleProgram, WrongInputIsRefusedBeforeAnythingIsWritten) {
  const auto refused = [&](std::vector<std::string> arguments, const std::string& message) {
    EXPECT_TRUE(is_refused(scale(std::move(arguments)), {message}));
    EXPECT_FALSE(fs::exists(study_folder_));
    EXPECT_FALSE(fs::exists(folder_ / "digits-strong"));
  };
  refused({"--ranks", "1,100"}, "100 ranks");  // more than there are samples for
  refused({"--ranks", "1", "--submit", "lottery"}, "slurm, pbs");
  // What is wrong with one of the runs, or with what the study sets for it.
  refused({"--ranks", "1,2", "parallel.pipeline=2"}, "1 rank, but pipeline 2");
  refused({"--ranks", "1,2", "parallel.data=2"}, "1 rank, but data 2");
  refused({"--ranks", "1,2", "--warmup", "0,1", "training.lr_decay=one_cycle"},
          "1 warm-up epoch): command line: training.lr_decay: one_cycle");
  refused({"--ranks", "1,2", "--strong", "training.accumulation=8"},
          "(2 ranks, batch 4 per rank, ");
  refused({"--ranks", "3,1", "--strong"}, "3 ranks can't share evenly");
}

TEST_F(ScaleProgram, ARunThatCantBeWrittenIsRefusedBeforeTheFirst) {
  fs::create_directories(study_folder_ / "runs");
  std::ofstream(study_folder_ / "runs/weak-1") << "a file";
  EXPECT_TRUE(is_refused(scale({"--ranks", "1"}), {"runs/weak-1 is not a folder"}));
  EXPECT_FALSE(fs::exists(study_folder_ / "study.json"));
}

// The study says of each run how large its batch is, whichever key the command line gives.
TEST_F(ScaleProgram, EveryKeyOfABatchSizeWorks) {
  EXPECT_TRUE(succeeds(scale({"--ranks", "2", "--dry-run", "training.local_batch_size=4"}),
                       {"training.batch_size=4"}));
  ASSERT_TRUE(succeeds(scale(
      {"--ranks", "1,2", "--strong", "training.global_batch_size=16", "training.n_epochs=1"})));
  for (const auto* const run : {"strong-1", "strong-2"}) {
    const auto history = History::read(folder_ / "digits-strong/runs" / run / "history.json");
    EXPECT_EQ(history.epochs().back().step, 64 / 16);
  }
}

TEST_F(ScaleProgram, DryRunShowsTheCommands) {
  EXPECT_TRUE(succeeds(scale({"--ranks", "2", "--dry-run", "--warmup", "0,1"}),
                       {"kolo train " + config_, "-n 2", "training.lr_warmup_epochs=1"}));
  EXPECT_FALSE(fs::exists(study_folder_));
}

// sbatch writes down what is submitted.
TEST_F(ScaleProgram, HandsRunsToASchedulerOnceAndCollectsThem) {
  const auto jobs = (folder_ / "jobs").string();
  const auto environment = scheduler(
      "echo \"$@\" >> " + jobs + "; echo 7",
      "case $* in *--jobs=7*) echo RUNNING;; *) echo 'Invalid job id' >&2; exit 1;; esac");
  const std::vector<std::string> command{
      "--ranks",          "1,2",      "--submit",     "slurm", "training.n_epochs=1",
      "--submit-options", "--time 5", "--job-script", config_};
  ASSERT_EQ(scale(command, environment).exit_code, 0);
  const auto submitted = read_text_file(jobs);
  EXPECT_TRUE(says(submitted, {"--ntasks=2", "--time 5", "training.batch_size=8"}));
  EXPECT_EQ(study().points[1].state, StudyPointState::submitted);
  EXPECT_EQ(study().points[1].job, "7");
  ASSERT_EQ(scale(command, environment).exit_code, 0);
  EXPECT_EQ(read_text_file(jobs), submitted);  // nothing twice

  // One job does its work.
  const auto run = (study_folder_ / "runs/weak-1").string();
  ASSERT_EQ(run_kolo({"train", config_, "training.n_epochs=1", "--output", run}).exit_code, 0);
  const auto collected = scale(command, environment);
  ASSERT_EQ(collected.exit_code, 0) << collected.errors;
  EXPECT_EQ(study().points[0].state, StudyPointState::done);
  EXPECT_GT(study().points[0].results.samples_per_second, 0);
  EXPECT_TRUE(says(collected.errors, {"1 of 2 points"}));
}

TEST_F(ScaleProgram, AJobThatEndedWithoutFinishingIsHandedOverAgain) {
  const auto jobs = (folder_ / "jobs").string();
  const auto environment =
      scheduler("echo \"$@\" >> " + jobs + "; wc -l < " + jobs,
                "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
  ASSERT_EQ(scale(one_job(), environment).exit_code, 0);
  EXPECT_EQ(study().points[0].job, "1");
  ASSERT_EQ(scale(one_job(), environment).exit_code, 0);
  EXPECT_EQ(study().points[0].job, "2");
}

// Or every run would be started twice whenever the scheduler is down for a moment.
TEST_F(ScaleProgram, ASchedulerThatCannotBeAskedIsNotTakenForAnAnswer) {
  const auto environment =
      scheduler("echo 7", "echo 'Unable to contact slurm controller' >&2; exit 1");
  ASSERT_EQ(scale(one_job(), environment).exit_code, 0);
  EXPECT_TRUE(ends_with(scale(one_job(), environment), 1, {"Unable to contact"}));
}

}  // namespace
}  // namespace kolo::testing
