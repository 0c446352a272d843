// What trainings come to beside what was published.
#include <cmath>

#include <gmock/gmock.h>

#include "kolo/base/random.h"
#include "kolo/study/reference.h"

namespace kolo::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Trial trial_of_seed(int seed, double best, double last, TrialState state = TrialState::done) {
  Trial trial;
  trial.number = seed;
  trial.settings = {"seed=" + std::to_string(seed)};
  trial.folder = "trials/" + std::to_string(seed);
  trial.state = state;
  trial.seconds = 3600;
  trial.epochs = 9;
  trial.best = best;
  trial.last = last;
  return trial;
}

ReferenceConfig published(double value, ReferenceMetric metric = ReferenceMetric::val_accuracy) {
  return {.published = value, .metric = metric, .source = "a page, and more"};
}

TEST(JudgedReference, LastEpochsCountNotBestOnes) {
  const auto missed = judge_reference("clothes", published(.95),
                                      {trial_of_seed(1, .97, .94), trial_of_seed(2, .96, .95)});
  EXPECT_EQ(missed.verdict, ReferenceVerdict::missed);
  EXPECT_NEAR(missed.found, .945, 1e-15);
  EXPECT_NEAR(missed.deviation, .01 / std::sqrt(2), 1e-15);
  EXPECT_EQ(missed.hours, 1);
  const auto reached = judge_reference("clothes", published(.9375), {trial_of_seed(1, .97, .9375)});
  EXPECT_EQ(reached.verdict, ReferenceVerdict::reached) << "as good is good enough";
  EXPECT_EQ(reached.deviation, 0);
}

TEST(JudgedReference, LossesAreBetterWhenTheyAreSmaller) {
  const auto of = [](double value) { return published(value, ReferenceMetric::val_loss); };
  EXPECT_EQ(judge_reference("gas", of(.1), {trial_of_seed(1, .05, .11)}).verdict,
            ReferenceVerdict::missed);
  EXPECT_EQ(judge_reference("gas", of(.1), {trial_of_seed(1, .05, .09)}).verdict,
            ReferenceVerdict::reached);
}

TEST(JudgedReference, OneThatFailedFailsAll) {
  auto broken = trial_of_seed(7, .99, .99, TrialState::failed);
  broken.problem = "status 1: no memory";
  const auto failed =
      judge_reference("clothes", published(.9), {trial_of_seed(6, .95, .95), broken});
  EXPECT_EQ(failed.verdict, ReferenceVerdict::failed);
  EXPECT_EQ(failed.problem, "seed 7: status 1: no memory");
  EXPECT_EQ(failed.found, .95) << "of those that are done";
  const auto unmeasured =
      judge_reference("clothes", published(.9), {trial_of_seed(1, .95, not_measured)});
  EXPECT_EQ(unmeasured.verdict, ReferenceVerdict::failed);
  EXPECT_THAT(unmeasured.problem, HasSubstr("no val_accuracy in its last epoch"));
  EXPECT_EQ(judge_reference("clothes", published(.9), {}).verdict, ReferenceVerdict::failed);
}

// Against the definitions, for any values and thresholds.
TEST(JudgedReference, RandomOnesAreAsDefined) {
  CounterRandom random(3, 0, 0);
  const auto share = [&] { return static_cast<double>(random.below(1001)) / 1000; };
  for (int round = 0; round < 500; ++round) {
    const auto count = static_cast<int>(random.below(5)) + 1;
    std::vector<Trial> trials;
    double sum = 0;
    for (int seed = 1; seed <= count; ++seed) {
      trials.push_back(trial_of_seed(seed, 1, share()));
      sum += trials.back().last;
    }
    const double mean = sum / count, threshold = share();
    if (std::abs(mean - threshold) < 1e-9) continue;
    const bool is_loss = random.below(2) == 1;
    const auto judged = judge_reference(
        "any",
        published(threshold, is_loss ? ReferenceMetric::val_loss : ReferenceMetric::val_accuracy),
        trials);
    double squares = 0;
    for (const auto& trial : trials) squares += (trial.last - mean) * (trial.last - mean);
    EXPECT_NEAR(judged.found, mean, 1e-12);
    EXPECT_NEAR(judged.deviation, count > 1 ? std::sqrt(squares / (count - 1)) : 0, 1e-12);
    EXPECT_EQ(judged.verdict == ReferenceVerdict::reached, is_loss != (mean > threshold));
  }
}

TEST(JudgedReference, IsShownAndWritten) {
  FinishedReferences finished{.file = "table.yaml", .folder = "results", .results = {}};
  finished.results.push_back(judge_reference(
      "clothes", published(.95), {trial_of_seed(1, .97, .94), trial_of_seed(2, .96, .946)}));
  auto& skipped = finished.results.emplace_back();
  skipped.name = "photographs";
  skipped.reference = published(.94);
  skipped.verdict = ReferenceVerdict::skipped;
  skipped.problem = "they are not there";
  const auto text = to_text(reference_results(finished.results));
  EXPECT_THAT(text, AllOf(HasSubstr("94.30 ± 0.42 %"), HasSubstr("94.00 %, 94.60 %"),
                          HasSubstr("below by 0.70 points"), HasSubstr("1 h 00 min"),
                          HasSubstr("photographs skipped: they are not there")));
  const auto json = finished.to_json();
  EXPECT_EQ(json["entries"][0]["verdict"], "missed");
  EXPECT_EQ(json["entries"][0]["seeds"][1]["seed"], 2);
  EXPECT_EQ(json["entries"][0]["seeds"][1]["last"], .946);
  EXPECT_TRUE(json["entries"][1]["found"].is_null());
  EXPECT_THAT(finished.to_csv(), AllOf(HasSubstr("\nclothes,val_accuracy,0.95,0.94"),
                                       HasSubstr(",2,0.94 0.946,1,missed,\"a page, and more\",\n"),
                                       HasSubstr("\nphotographs,val_accuracy,0.94,,,0,,,skipped,"),
                                       Not(HasSubstr("nan"))));
}

}  // namespace
}  // namespace kolo::testing
