#include "kolo/tools/timeline.h"

#include "kolo/base/error.h"
#include "support/matchers.h"
#include "support/pipeline_play.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using ::testing::Pair;

std::string span(const std::string& name, int rank, int thread, double begin, double duration,
                 const std::string& arguments = "{}") {
  return R"({"name":")" + name + R"(","ph":"X","pid":)" + std::to_string(rank) + R"(,"tid":)" +
         std::to_string(thread) + R"(,"ts":)" + std::to_string(begin) + R"(,"dur":)" +
         std::to_string(duration) + R"(,"args":)" + arguments + "},\n";
}

std::string step_span(int number, int rank, int thread, double begin, double duration) {
  return span("step", rank, thread, begin, duration, R"({"step":)" + std::to_string(number) + "}");
}

std::string pass_name(const PipelineSpan& span) {
  return name_of(PipelinePass{span.action.work, span.rank, span.action.micro_batch});
}

// A step of a pipeline as it is played, a millisecond per unit of time, from `begin` on.
std::string played(const PipelineShape& shape, int number, double begin, int thread = 1,
                   const PipelineTimes& times = {}) {
  const auto play = play_pipeline(plan_pipeline(shape), times);
  std::string text;
  for (int rank = 0; rank < shape.ranks; ++rank)
    text += step_span(number, rank, thread, begin, 1e3 * play.makespan + 500);
  for (const auto& each : play.spans)
    text += span(pass_name(each), each.rank, thread, begin + 100 + 1e3 * each.begin,
                 1e3 * (each.end - each.begin));
  return text;
}

std::string message(int rank, double begin, double duration, const std::string& collective,
                    int bytes, const std::string& name = "halo") {
  return span(name, rank, 1001, begin, duration,
              R"({"collective":")" + collective + R"( of 4 float32","bytes":)" +
                  std::to_string(bytes) + R"(,"peer":1,"tag":0})");
}

class TimelineSummaries : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path timeline(const std::string& events) const {
    return folder_.write("timeline.json", "[\n" + events + R"({"cut":"o)");
  }
  [[nodiscard]] TimelineSummary summary(const std::string& events) const {
    return summarize_timeline(timeline(events));
  }

  TemporaryFolder folder_;
};

TEST_F(TimelineSummaries, FindsTheIdleShareOfPlayedSchedules) {
  using enum PipelineSchedule;
  for (const auto& shape : {PipelineShape{one_f_one_b, 3, 5}, PipelineShape{gpipe, 2, 4},
                            PipelineShape{one_f_one_b, 1, 2}}) {
    const auto found = summary(played(shape, 7, 5000));
    ASSERT_TRUE(found.pipeline);
    EXPECT_EQ(found.pipeline->shape.ranks, shape.ranks);
    EXPECT_EQ(found.pipeline->shape.micro_batches, shape.micro_batches);
    ASSERT_THAT(found.pipeline->idle_fractions, SizeIs(static_cast<std::size_t>(shape.ranks)));
    const auto play = play_pipeline(plan_pipeline(shape));
    for (const auto& [rank, fraction] : found.pipeline->idle_fractions)
      EXPECT_NEAR(fraction, play.idle_fraction(rank), 1e-6);
    ASSERT_TRUE(found.pipeline->ideal);
    EXPECT_NEAR(*found.pipeline->ideal, play.idle_fraction(), 1e-6);
  }
}

TEST_F(TimelineSummaries, WaitsAreNoWork) {
  const PipelineShape shape{PipelineSchedule::one_f_one_b, 2, 1};
  const auto events = played(shape, 1, 0) +
                      span("wait activation stage 1 micro-batch 0", 1, 1, 100, 900) +
                      span("forward", 1, 1, 0, 100);
  const auto found = summary(events);
  ASSERT_TRUE(found.pipeline);
  EXPECT_NEAR(found.pipeline->idle_fractions.at(1), .5, 1e-6);
}

// In gpipe's first step rank 1 takes three times as long.
TEST_F(TimelineSummaries, HasMeansOfStepsByRank) {
  const PipelineShape shape{PipelineSchedule::gpipe, 2, 4};
  const PipelineTimes times{{{1, 1}, {3, 3}}, 0};
  const auto found = summary(played(shape, 1, 0, 1, times) + played(shape, 2, 1e5));
  const auto slow = play_pipeline(plan_pipeline(shape), times),
             even = play_pipeline(plan_pipeline(shape));
  ASSERT_TRUE(found.pipeline);
  EXPECT_EQ(found.pipeline->steps, 2U);
  for (const int rank : {0, 1})
    EXPECT_NEAR(found.pipeline->idle_fractions.at(rank),
                (slow.idle_fraction(rank) + even.idle_fraction(rank)) / 2, 1e-6);
  EXPECT_TRUE(
      says(to_text(found), {"idle in a pipeline of 2 ranks, 4 micro-batches; equal stages without "
                            "messages: 20.0 %\n  mean of 2 steps: rank 0 "}));
}

TEST_F(TimelineSummaries, SaysTheRangeOfManyRanks) {
  const PipelineShape shape{PipelineSchedule::one_f_one_b, 9, 3};
  EXPECT_TRUE(says(to_text(summary(played(shape, 1, 0))),
                   {"  mean of 1 step: 9 ranks 72.7 % to 72.7 %, mean 72.7 %\n"}));
}

// The host submits passes in no time; the device's spans count, in its own steps.
TEST_F(TimelineSummaries, DevicesCountForTheirThreads) {
  const PipelineShape shape{PipelineSchedule::one_f_one_b, 2, 3};
  const auto found = summary(played(shape, 1, 0, 2001) + step_span(1, 0, 1, 0, 40) +
                             span("forward stage 0 micro-batch 0", 0, 1, 0, 10));
  ASSERT_TRUE(found.pipeline);
  EXPECT_NEAR(found.pipeline->idle_fractions.at(0), *found.pipeline->ideal, 1e-6);
}

TEST_F(TimelineSummaries, SaysWhereRanksAreMissing) {
  const auto found =
      summary(step_span(1, 1, 1, 0, 100) + span("forward stage 1 micro-batch 0", 1, 1, 0, 10));
  ASSERT_TRUE(found.pipeline);
  EXPECT_FALSE(found.pipeline->ideal);
  EXPECT_TRUE(says(to_text(found), {"ranks are missing"}));
}

TEST_F(TimelineSummaries, AddsUpHalos) {
  // Two steps of rank 0, the first with two messages each way that overlap; and what is no halo.
  const auto found =
      summary(step_span(1, 0, 1, 0, 1000) + message(0, 100, 200, "send", 1000) +
              message(0, 100, 300, "receive", 1000) + message(0, 600, 50, "send", 3000) +
              message(0, 2, 900, "send", 77, "activation") + step_span(2, 0, 1, 2000, 1000) +
              message(0, 2100, 250, "receive", 1000) + message(0, 5000, 250, "send", 1000));
  ASSERT_THAT(found.halos, ElementsAre(Pair(0, ::testing::_)));
  const auto& totals = found.halos.at(0);
  EXPECT_NEAR(totals.bytes_sent, 2000, 1e-9);
  EXPECT_NEAR(totals.messages_sent, 1, 1e-9);
  EXPECT_NEAR(totals.seconds, 1e-6 * (300 + 50 + 250) / 2, 1e-12);
  EXPECT_TRUE(says(to_text(found), {"sent: rank 0 0.002 MB\n  in messages: rank 0 1.0\n  time on "
                                    "their way: rank 0 0.3 ms\n"}));
}

TEST_F(TimelineSummaries, HasNothingToSayOfOtherTimelines) {
  const auto found = summary(step_span(1, 0, 1, 0, 1000) + span("forward", 0, 1, 0, 100) +
                             span("forward stage x micro-batch 1", 0, 1, 100, 100) +
                             span("forward stage 1 micro-batch", 0, 1, 100, 100));
  EXPECT_FALSE(found.pipeline);
  EXPECT_EQ(to_text(found), "");
  EXPECT_THAT([this] { (void)summarize_timeline(folder_ / "none.json"); },
              ThrowsMessage<InputError>(HasSubstr("cannot read")));
}

}  // namespace
}  // namespace kolo::testing
