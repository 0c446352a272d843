// kolo reference, end to end through the binary.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/small_runs.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A table of three: one that any network reaches, one that none does, and one without data.
class ReferenceProgram : public SmallRuns {
 protected:
  [[nodiscard]] std::vector<std::string> words(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"reference", table, "-o", folder / "found", "--oversubscribe"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  [[nodiscard]] ProcessResult reference(const std::vector<std::string>& more) const {
    return run_kolo(words(more));
  }
  [[nodiscard]] nlohmann::json found() const {
    return nlohmann::json::parse(text_of("found/reference.json"));
  }
  [[nodiscard]] double last_accuracy(const std::string& run) const {
    return history(run).epochs().back().val_accuracy;
  }

  std::string table =
      folder.write("table.yaml",
                   "easy: &easy\n"
                   "  data: {name: mnist, path: " +
                       (folder / "data").string() +
                       "}\n"
                       "  model: {name: mnist_net}\n"
                       "  optimizer: {name: adam, lr: 0.002, lr_scaling: none}\n"
                       "  training: {batch_size: 16, n_epochs: 2}\n"
                       "  checkpoint: {keep: 50}\n"
                       "  device: {intra_threads: 1}\n"
                       "  reference: {published: 0.01, source: somebody, seeds: 2, hours: 0.5, "
                       "machine: a laptop}\n"
                       "hard:\n"
                       "  <<: *easy\n"
                       "  seed: 7\n"
                       "  reference: {published: 1e-9, metric: val_loss, seeds: 1}\n"
                       "photographs:\n"
                       "  <<: *easy\n"
                       "  data: {name: cifar10, path: " +
                       (folder / "nowhere").string() +
                       "}\n"
                       "of_nobody:\n"
                       "  data: {name: mnist, path: " +
                       (folder / "data").string() +
                       "}\n"
                       "  model: {name: mnist_net}\n"
                       "  optimizer: {name: sgd}\n");
};

TEST_F(ReferenceProgram, AllAreTrainedWithTheirSeedsAndCompared) {
  const auto result = reference({});
  EXPECT_EQ(result.exit_code, 1) << result.errors;
  const auto entries = found()["entries"];
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0]["verdict"], "reached");
  ASSERT_EQ(entries[0]["seeds"].size(), 2U);
  EXPECT_EQ(entries[0]["seeds"][1]["seed"], 2);
  const double first = last_accuracy("found/easy/trials/001-seed-1");
  const double second = last_accuracy("found/easy/trials/002-seed-2");
  EXPECT_DOUBLE_EQ(entries[0]["found"].get<double>(), (first + second) / 2);
  EXPECT_EQ(entries[1]["verdict"], "missed");
  EXPECT_EQ(entries[1]["seeds"][0]["seed"], 7);
  EXPECT_EQ(entries[1]["metric"], "val_loss");
  EXPECT_EQ(entries[2]["verdict"], "skipped");
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("reached"), HasSubstr("above by "), HasSubstr("±"),
                    HasSubstr("photographs skipped: "), HasSubstr("kolo data fetch cifar10")));
  EXPECT_THAT(text_of("found/report.html"), HasSubstr("Reference results"));
  EXPECT_THAT(text_of("found/reference.csv"), HasSubstr("\nhard,val_loss,1e-09,"));
  EXPECT_THAT(text_of("found/easy/trials/002-seed-2/out.log"),
              HasSubstr("published val_accuracy 1.00 % (somebody); this run's last epoch has " +
                        fmt::format("{:.2f} %", 100 * second)));

  // What is done is not done again, also where other things are known of what was published.
  const auto harder =
      reference({"easy", "reference={published: 1e-9, metric: val_loss, seeds: 2}"});
  EXPECT_EQ(harder.exit_code, 1) << harder.errors;
  EXPECT_THAT(harder.errors, HasSubstr("easy: 2 trials, 0 to do"));
  EXPECT_THAT(harder.output, HasSubstr("above by "));
  const auto json = reference({"--json", "easy"});
  EXPECT_EQ(json.exit_code, 0) << json.errors;
  EXPECT_THAT(json.errors, HasSubstr("easy: 2 trials, 0 to do"));
  EXPECT_EQ(nlohmann::json::parse(json.output)["entries"][0], entries[0]);
  auto text = read_text_file(table);
  text.replace(text.find("hours: 0.5"), 10, "hours: 0.1");
  folder.write("table.yaml", text);
  const auto more = reference({"easy", "--seeds", "3", "--quiet"});
  EXPECT_EQ(more.exit_code, 0) << more.errors;
  EXPECT_EQ(more.errors, "");
  EXPECT_EQ(found()["entries"][0]["seeds"].size(), 3U) << "one was added";
}

TEST_F(ReferenceProgram, StoppedTheSameCommandGoesOn) {
  const std::vector<std::string> setting = {"easy", "training.n_epochs=30", "checkpoint.keep=100"};
  const auto stopped = run_kolo_and(words(setting), [&](pid_t process) {
    EXPECT_TRUE(wait_for_file(checkpoint(25, "found/easy/trials/001-seed-1")));
    ::kill(process, SIGTERM);
  });
  EXPECT_EQ(stopped.exit_code, 75) << stopped.errors;
  EXPECT_THAT(stopped.errors, HasSubstr("the same command goes on"));
  EXPECT_FALSE(fs::exists(folder / "found/reference.json"));
  const auto finished = reference(setting);
  EXPECT_EQ(finished.exit_code, 0) << finished.errors;
  for (const auto& seed : found()["entries"][0]["seeds"]) EXPECT_EQ(seed["epochs"], 30);
  EXPECT_THAT(text_of("found/easy/trials/001-seed-1/out.log"), HasSubstr("resuming from"));
}

TEST_F(ReferenceProgram, ATrainingThatFailsIsToldOf) {
  const auto result = reference({"easy", "--seeds", "1", "optimizer.lr=1e30"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(found()["entries"][0]["verdict"], "failed");
  EXPECT_THAT(result.output, HasSubstr("easy failed: seed 1: status 1: "));
}

TEST_F(ReferenceProgram, ShowsWhatThereIsAndWhatItWouldDo) {
  const auto list = reference({"--list"});
  EXPECT_EQ(list.exit_code, 0) << list.errors;
  EXPECT_THAT(list.output,
              AllOf(HasSubstr("1.00 %"), HasSubstr("30 min 00 s on a laptop"),
                    HasSubstr("somebody"), HasSubstr("val_loss"), Not(HasSubstr("of_nobody"))));
  const auto json = nlohmann::json::parse(reference({"--list", "--json", "hard"}).output);
  ASSERT_EQ(json["entries"].size(), 1U);
  EXPECT_EQ(json["entries"][0]["name"], "hard");
  EXPECT_EQ(json["entries"][0]["hours"], .5) << "merged";
  const auto plan = reference({"--dry-run", "easy", "photographs", "seed=5"});
  EXPECT_EQ(plan.exit_code, 0) << plan.errors;
  EXPECT_THAT(plan.output, AllOf(HasSubstr("--config easy seed=6 --output"),
                                 HasSubstr("photographs: skipped: ")));
  EXPECT_FALSE(fs::exists(folder / "found"));
}

TEST_F(ReferenceProgram, SaysWhatIsWrong) {
  const auto refused = [&](const std::vector<std::string>& more, const auto& what) {
    const auto result = reference(more);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.errors, what);
    EXPECT_FALSE(fs::exists(folder / "found"));
  };
  refused({"esay", "of_nobody", "easy"},
          AllOf(HasSubstr("\"esay\" (did you mean \"easy\"?), \"of_nobody\""),
                HasSubstr("it has easy, hard, photographs")));
  refused({"photographs"}, HasSubstr("kolo data fetch cifar10"));
  refused({"easy", "optimizer.rl=1"}, HasSubstr("optimizer"));
  refused({"easy", "description=a,b"}, HasSubstr("only the seeds vary"));
  refused({config}, HasSubstr("both files"));
  EXPECT_THAT(run_kolo({"reference", config}).errors,
              HasSubstr("no configuration with a section `reference`"));
  ASSERT_EQ(train({"training.n_epochs=1"}, "taken").exit_code, 0);
  EXPECT_THAT(run_kolo({"reference", table, "easy", "-o", folder / "taken"}).errors,
              HasSubstr("taken holds a run of kolo train"));
}

// The table that kolo comes with.
TEST_F(ReferenceProgram, FindsItsOwnTable) {
  fs::create_directory_symlink(KOLO_CONFIGS, folder / "configs");
  const auto list = run_in_fork(
      [&] {
        return run_kolo_program({"reference", "--list"});
      },
      {.working_directory = folder.path()});
  EXPECT_EQ(list.exit_code, 0) << list.errors;
  EXPECT_THAT(list.output, AllOf(HasSubstr("configs/reference.yaml: "), HasSubstr("fashion_mnist"),
                                 HasSubstr("94.90 %"), HasSubstr("cifar10")));
}

}  // namespace
}  // namespace kolo::testing
