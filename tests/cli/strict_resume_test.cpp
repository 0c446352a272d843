// checkpoint.strict_resume: a run goes on to the results that it would have had, or not at all.
#include "cli/small_runs.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class StrictResume : public SmallRuns {
 protected:
  // Goes on at step 25 of two epochs.
  [[nodiscard]] ProcessResult go_on(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"--resume=25", "checkpoint.strict_resume=true"};
    all.insert(all.end(), more.begin(), more.end());
    return train(all);
  }
};

TEST_F(StrictResume, RefusesAllThatChangesResultsBeforeAnythingStarts) {
  have_run({"training.n_epochs=2", "training.lr_decay=cosine"});
  const auto config_before = text_of("run/config.yaml"), log_before = text_of("run/out.log");
  struct Case {
    std::vector<std::string> settings;
    std::vector<std::string> said;
  };
  const std::string same = "training.n_epochs=2", cosine = "training.lr_decay=cosine";
  const std::vector<Case> cases = {
      {{same, cosine, "optimizer.lr=0.5"}, {"optimizer.lr is 0.5 instead of 0.002"}},
      {{same, cosine, "-n", "2"}, {"2 ranks instead of 1 (training.virtual_ranks gives"}},
      {{same, cosine, "-n", "2", "training.batch_size=8"},
       {"training.batch_size is 8 instead of 16", "2 ranks instead of 1"}},
      {{same, cosine, "seed=2", "--allow-data-change", "model.dropout=0.3"},
       {"seed is 2 instead of 1", "model.dropout is 0.3 instead of 0.5"}},
      {{cosine, "training.n_epochs=4"}, {"training.n_epochs is 4 instead of 2"}},
      {{same, cosine, "device.intra_threads=2"},
       {"device.intra_threads is 2 instead of 1", "threads per rank 2 instead of 1"}}};
  for (const auto& [settings, said] : cases) {
    SCOPED_TRACE(::testing::PrintToString(settings));
    const auto refused = go_on(settings);
    EXPECT_EQ(refused.exit_code, 2) << refused.output;
    for (const auto& text : said) EXPECT_TRUE(says(refused.errors, {text}));
    EXPECT_TRUE(says(refused.errors, {"command line: checkpoint.strict_resume: ", "step-00000025",
                                      "checkpoint.strict_resume=false"}));
  }
  EXPECT_EQ(text_of("run/config.yaml"), config_before);
  EXPECT_EQ(text_of("run/out.log"), log_before);
}

TEST_F(StrictResume, TakesWhatNoNumberDependsOn) {
  have_run({}, "whole");
  have_run({"training.n_epochs=2"});
  copy(data(), "moved");
  const auto result = go_on({"training.n_epochs=4", "data.workers=2", "data.prefetch=2",
                             "checkpoint.keep=9", "data.path=" + (folder / "moved").string()});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  expect_same_records("whole", "run");
  expect_same_weights("whole", "run");
}

TEST_F(StrictResume, TakesOtherRanksWhereThereAreVirtualOnes) {
  const std::string virtual_ranks = "training.virtual_ranks=2";
  ASSERT_EQ(train({virtual_ranks, "training.n_epochs=2"}).exit_code, 0);
  const auto result = train({"--resume=13", "checkpoint.strict_resume=true", virtual_ranks,
                             "training.n_epochs=2", "-n", "2", "communication.bucket_mb=1"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(says(result.output, {"2 ranks instead of 1"}));
  const auto refused = train({"--resume=13", "checkpoint.strict_resume=true", virtual_ranks,
                              "training.n_epochs=3", "-n", "2", "device.intra_threads=2"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors,
              AllOf(HasSubstr("device.intra_threads is 2"), Not(HasSubstr("2 ranks instead"))));
}

TEST_F(StrictResume, WantsToKnowWhatTheRunSoFarWas) {
  have_run({"training.n_epochs=2"});
  std::filesystem::remove(folder / "run" / "config.yaml");
  const auto refused = go_on({"training.n_epochs=2"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(says(refused.errors, {"the settings so far are not known"}));
  // A run whose file has it is only begun by it.
  EXPECT_EQ(train({"checkpoint.strict_resume=true", "training.n_epochs=1"}, "new").exit_code, 0);
}

}  // namespace
}  // namespace kolo::testing
