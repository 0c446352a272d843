#include "kolo/layout/pipeline_schedule.h"

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/pipeline_play.h"

namespace kolo {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

constexpr std::array schedules{PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b,
                               PipelineSchedule::interleaved, PipelineSchedule::zb_h1};

std::string describe(const PipelineShape& shape) {
  return fmt::format("{} p={} m={} v={}", name_of(shape.schedule), shape.ranks, shape.micro_batches,
                     shape.chunks);
}

// "F0 F1 B0 F2 ...", with the chunk after a point where there are several.
std::string computations(const PipelineShape& shape, int rank) {
  std::string text;
  for (const auto& action : pipeline_computations(shape, rank)) {
    text += action.work == PipelineWork::forward    ? "F"
            : action.work == PipelineWork::backward ? "B"
                                                    : "W";
    text += shape.chunks == 1 ? fmt::format("{} ", action.micro_batch)
                              : fmt::format("{}.{} ", action.micro_batch, action.chunk);
  }
  return text;
}

TEST(PipelineSchedule, ListsOfSmallPipelines) {
  EXPECT_EQ(computations({PipelineSchedule::gpipe, 2, 3}, 0), "F0 F1 F2 B0 B1 B2 ");
  EXPECT_EQ(computations({PipelineSchedule::one_f_one_b, 3, 4}, 0), "F0 F1 F2 B0 F3 B1 B2 B3 ");
  EXPECT_EQ(computations({PipelineSchedule::one_f_one_b, 3, 4}, 2), "F0 B0 F1 B1 F2 B2 F3 B3 ");
  EXPECT_EQ(computations({PipelineSchedule::zb_h1, 3, 4}, 0),
            "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3 ");
  EXPECT_EQ(computations({PipelineSchedule::zb_h1, 3, 4}, 2),
            "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3 ");
  EXPECT_EQ(computations({PipelineSchedule::interleaved, 2, 2, 2}, 1),
            "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0 ");
  EXPECT_EQ(computations({PipelineSchedule::interleaved, 2, 1, 2}, 1), "F0.0 F0.1 B0.1 B0.0 ");
}

// Each micro-batch once through each stage: forward, backward and gradient of weights, in the order
// of the micro-batches, and nothing else.
void expect_all_computed(const PipelinePlan& plan) {
  const auto& shape = plan.shape;
  using Key = std::tuple<PipelineWork, int, int>;  // and chunk, micro-batch
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::map<Key, std::size_t> places;
    std::map<std::pair<PipelineWork, int>, int> latest;
    const auto& list = plan.actions[static_cast<std::size_t>(rank)];
    for (std::size_t place = 0; place < list.size(); ++place) {
      const auto& action = list[place];
      if (action.work == PipelineWork::send || action.work == PipelineWork::receive) continue;
      EXPECT_TRUE(places.insert({{action.work, action.chunk, action.micro_batch}, place}).second);
      auto [before, is_first] = latest.insert({{action.work, action.chunk}, -1});
      EXPECT_EQ(action.micro_batch, before->second + 1);
      before->second = action.micro_batch;
    }
    const auto kinds = shape.has_weight_gradients() ? 3 : 2;
    EXPECT_EQ(places.size(), static_cast<std::size_t>(kinds * shape.chunks * shape.micro_batches));
    for (const auto& [key, place] : places) {
      const auto [work, chunk, micro_batch] = key;
      if (work == PipelineWork::backward) {
        EXPECT_GT(place, places.at({PipelineWork::forward, chunk, micro_batch}));
      } else if (work == PipelineWork::weight_gradient) {
        EXPECT_GT(place, places.at({PipelineWork::backward, chunk, micro_batch}));
      }
    }
  }
}

// Every send has its receive at the peer, and all activations and gradients travel.
void expect_messages_match(const PipelinePlan& plan) {
  const auto& shape = plan.shape;
  std::map<int, std::vector<std::tuple<int, int, PipelinePayload, int>>> ends;  // by tag
  for (int rank = 0; rank < shape.ranks; ++rank) {
    for (const auto& action : plan.actions[static_cast<std::size_t>(rank)]) {
      const bool is_send = action.work == PipelineWork::send;
      if (!is_send && action.work != PipelineWork::receive) continue;
      const auto stage = action.chunk * shape.ranks + rank;
      const auto step = (action.payload == PipelinePayload::activation ? 1 : -1);
      EXPECT_EQ(action.peer, shape.rank_of(is_send ? stage + step : stage - step));
      ends[action.tag].emplace_back(is_send ? rank : action.peer, is_send ? action.peer : rank,
                                    action.payload, action.micro_batch);
    }
  }
  for (const auto& [tag, both] : ends) {
    ASSERT_EQ(both.size(), 2U);
    EXPECT_EQ(both[0], both[1]);
    EXPECT_LT(tag, 2 * shape.micro_batches * shape.stages());
  }
  const auto crossings = shape.ranks == 1 ? 0 : 2 * shape.micro_batches * (shape.stages() - 1);
  EXPECT_EQ(static_cast<int>(ends.size()), crossings);
}

void expect_kept(const PipelinePlan& plan, const PipelinePlay& play) {
  const auto& shape = plan.shape;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const auto& result = play.ranks[static_cast<std::size_t>(rank)];
    const auto bound = most_micro_batches_kept(shape, rank);
    if (shape.schedule == PipelineSchedule::interleaved && shape.micro_batches % shape.ranks != 0) {
      EXPECT_LE(result.most_kept, bound);
    } else {
      EXPECT_EQ(result.most_kept, bound);
    }
    EXPECT_LE(result.most_weight_gradients_left, shape.has_weight_gradients() ? rank + 1 : 0);
  }
}

PipelineTimes random_times(std::mt19937_64& random, int stages) {
  PipelineTimes times{{}, static_cast<double>(random() % 5)};
  for (int stage = 0; stage < stages; ++stage) {
    times.stages.push_back({static_cast<double>(random() % 9), static_cast<double>(random() % 9),
                            static_cast<double>(random() % 9)});
  }
  return times;
}

// No computation begins before what it needs is there, nor while its rank computes another.
void expect_causal(const PipelinePlan& plan, const PipelineTimes& times, const PipelinePlay& play) {
  const auto& shape = plan.shape;
  std::map<std::tuple<PipelineWork, int, int>, PipelineSpan> spans;  // and stage, micro-batch
  std::vector<double> free(static_cast<std::size_t>(shape.ranks), 0);
  for (const auto& span : play.spans) {
    auto& since = free[static_cast<std::size_t>(span.rank)];
    EXPECT_GE(span.begin, since);
    since = span.end;
    EXPECT_LE(span.end, play.makespan);
    const auto stage = span.action.chunk * shape.ranks + span.rank;
    spans[{span.action.work, stage, span.action.micro_batch}] = span;
  }
  const auto transfer = shape.ranks == 1 ? 0 : times.transfer;
  for (const auto& [key, span] : spans) {
    const auto [work, stage, micro_batch] = key;
    if (work == PipelineWork::forward && stage > 0) {
      EXPECT_GE(span.begin, spans.at({work, stage - 1, micro_batch}).end + transfer);
    } else if (work == PipelineWork::backward) {
      EXPECT_GE(span.begin, spans.at({PipelineWork::forward, stage, micro_batch}).end);
      if (stage + 1 < shape.stages()) {
        EXPECT_GE(span.begin, spans.at({work, stage + 1, micro_batch}).end + transfer);
      }
    } else if (work == PipelineWork::weight_gradient) {
      EXPECT_GE(span.begin, spans.at({PipelineWork::backward, stage, micro_batch}).end);
    }
  }
}

TEST(PipelineSchedule, RandomPipelinesEndAndComputeEverythingOnce) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    const auto schedule = schedules[static_cast<std::size_t>(i) % schedules.size()];
    const PipelineShape shape{
        schedule, static_cast<int>(1 + random() % 7), static_cast<int>(1 + random() % 12),
        schedule == PipelineSchedule::interleaved ? static_cast<int>(1 + random() % 4) : 1};
    SCOPED_TRACE(describe(shape));
    const auto plan = plan_pipeline(shape);
    const auto times = random_times(random, shape.stages());
    const auto play = play_pipeline(plan, times);  // throws where the lists can't end
    expect_kept(plan, play);
    if (i % 8 >= 4) continue;  // what takes longer
    expect_all_computed(plan);
    expect_messages_match(plan);
    expect_causal(plan, times, play);
  }
}

TEST(PipelineSchedule, IdleSharesAreThoseOfTheFormulas) {
  for (const auto schedule : schedules) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (int micro_batches = 1; micro_batches <= 24; ++micro_batches) {
        for (int chunks = 1; chunks <= 4; ++chunks) {
          if (chunks > 1 && schedule != PipelineSchedule::interleaved) break;
          const PipelineShape shape{schedule, ranks, micro_batches, chunks};
          SCOPED_TRACE(describe(shape));
          const auto play = play_pipeline(plan_pipeline(shape));
          const auto ideal = ideal_idle_share(shape);
          const bool is_exact = schedule == PipelineSchedule::interleaved
                                    ? micro_batches % ranks == 0
                                : schedule == PipelineSchedule::zb_h1 ? micro_batches >= ranks
                                                                      : true;
          if (is_exact) {
            EXPECT_NEAR(play.idle_share(), ideal, 1e-12);
          } else {
            EXPECT_GE(play.idle_share(), ideal - 1e-12);
          }
        }
      }
    }
  }
}

TEST(PipelineSchedule, ZeroBubbleHasAThirdOfTheIdleTime) {
  const auto idle = [](PipelineSchedule schedule) {
    const auto play = play_pipeline(plan_pipeline({schedule, 4, 8}));
    return play.idle_share() * play.makespan;
  };
  EXPECT_DOUBLE_EQ(idle(PipelineSchedule::one_f_one_b), 9);
  EXPECT_DOUBLE_EQ(idle(PipelineSchedule::zb_h1), 3);
}

TEST(PipelineSchedule, MicroBatchesKept) {
  const auto kept = [](const PipelineShape& shape) {
    std::vector<std::int64_t> ranks;
    for (int rank = 0; rank < shape.ranks; ++rank) {
      ranks.push_back(most_micro_batches_kept(shape, rank));
    }
    return ranks;
  };
  using Counts = std::vector<std::int64_t>;
  EXPECT_EQ(kept({PipelineSchedule::gpipe, 3, 8}), (Counts{8, 8, 8}));
  EXPECT_EQ(kept({PipelineSchedule::one_f_one_b, 3, 8}), (Counts{3, 2, 1}));
  EXPECT_EQ(kept({PipelineSchedule::one_f_one_b, 3, 2}), (Counts{2, 2, 1}));
  EXPECT_EQ(kept({PipelineSchedule::zb_h1, 3, 8}), (Counts{3, 2, 1}));
  EXPECT_EQ(kept({PipelineSchedule::interleaved, 4, 8, 2}), (Counts{11, 9, 7, 5}));  // 4 + 3 / 2
}

TEST(PipelineSchedule, ASlowStageKeepsTheOthersWaiting) {
  PipelineTimes times{{{1, 1, 1}, {3, 3, 3}}, 0};
  const auto play = play_pipeline(plan_pipeline({PipelineSchedule::one_f_one_b, 2, 8}), times);
  EXPECT_DOUBLE_EQ(play.makespan, 1 + 8 * 9 + 2);
  EXPECT_DOUBLE_EQ(play.ranks[0].busy, 8 * 3);
  EXPECT_DOUBLE_EQ(play.idle_share(0), 1 - 24. / 75);
  EXPECT_DOUBLE_EQ(play.idle_share(1), 1 - 72. / 75);
}

// Rank 1 posts the receive of micro-batch 2 after its first pass, so rank 0 can't go on before.
TEST(PipelineSchedule, SendsWaitForTheirReceives) {
  const PipelineTimes times{{{1, 1, 0}, {3, 1, 0}}, 0};
  const auto play = play_pipeline(plan_pipeline({PipelineSchedule::gpipe, 2, 4}), times);
  std::vector<double> begins;
  for (const auto& span : play.spans) {
    if (span.rank == 0 && span.action.work == PipelineWork::forward) begins.push_back(span.begin);
  }
  EXPECT_THAT(begins, ElementsAre(0, 1, 2, 4));
}

TEST(PipelineSchedule, TransfersTakeTime) {
  const auto makespan = [](double transfer) {
    return play_pipeline(plan_pipeline({PipelineSchedule::gpipe, 3, 4}), {{}, transfer}).makespan;
  };
  EXPECT_DOUBLE_EQ(makespan(0), 3 * 6);
  EXPECT_DOUBLE_EQ(makespan(.5), 3 * 6 + 4 * .5);  // two each way
}

// One micro-batch through three stages and back.
TEST(PipelineSchedule, TransfersMayDifferByStage) {
  PipelineTimes times;
  times.transfers = {.5, .25, 100};
  const auto plan = plan_pipeline({PipelineSchedule::gpipe, 3, 1});
  EXPECT_DOUBLE_EQ(play_pipeline(plan, times).makespan, 3 * 3 + 2 * (.5 + .25));
  times.transfers.pop_back();
  EXPECT_THAT(message_of<InputError>([&] { (void)play_pipeline(plan, times); }),
              HasSubstr("messages after 2 stages, expected 3"));
}

std::string refusal(const PipelinePlan& plan) {
  return message_of<Error>([&] { (void)play_pipeline(plan); });
}

// Sends before the receives that the other end sends before: each waits for the other.
TEST(PipelineSchedule, SaysWhoWaitsWhereAScheduleCannotEnd) {
  auto plan = plan_pipeline({PipelineSchedule::one_f_one_b, 2, 4});
  const auto is_receive = [](const PipelineAction& action) {
    return action.work == PipelineWork::receive;
  };
  for (auto& list : plan.actions) {
    // To right before what needs them, as a list for sends that never wait would have them.
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!is_receive(list[i])) continue;
      const auto receive = list[i];
      const auto user = receive.payload == PipelinePayload::activation ? PipelineWork::forward
                                                                       : PipelineWork::backward;
      for (auto place = i;
           !(list[place + 1].work == user && list[place + 1].micro_batch == receive.micro_batch);
           ++place) {
        std::swap(list[place], list[place + 1]);
      }
      if (!(list[i] == receive)) --i;
    }
  }
  EXPECT_EQ(refusal(plan),
            "pipeline: the schedule can't end: rank 0 waits until rank 1 receives the activation "
            "of micro-batch 1 of stage 0; rank 1 waits until rank 0 receives the gradient of "
            "micro-batch 0 of stage 1");
  plan = plan_pipeline({PipelineSchedule::gpipe, 8, 2});
  std::erase_if(plan.actions[1], is_receive);
  EXPECT_THAT(refusal(plan),
              AllOf(HasSubstr("rank 0 waits until rank 1 receives the activation of micro-batch 0 "
                              "of stage 0; rank 1 waits for what it needs for the forward of "
                              "micro-batch 0 of stage 1; rank 2"),
                    ::testing::Not(HasSubstr("rank 4 waits"))));
}

TEST(PipelineSchedule, RefusesWhatIsNoSchedule) {
  const auto good = plan_pipeline({PipelineSchedule::gpipe, 2, 1});
  ASSERT_EQ(refusal({good.shape, {good.actions[0]}}), "pipeline: 1 lists of actions for 2 ranks");
  auto plan = good;
  plan.actions[0].push_back(plan.actions[0].back());
  EXPECT_EQ(refusal(plan), "pipeline: rank 0 has backward of micro-batch 0 of stage 0 twice");
  plan = good;
  for (auto& action : plan.actions[0]) action.peer = 0;
  EXPECT_THAT(refusal(plan), HasSubstr("which is no message between it and rank 0"));
  plan = good;
  std::ranges::reverse(plan.actions[1]);
  EXPECT_THAT(refusal(plan), HasSubstr("sends the gradient of micro-batch 0 of stage 1 before it"));
  plan = good;
  std::erase_if(plan.actions[0], [](const auto& action) { return action.tag == 0; });
  EXPECT_THAT(refusal(plan), HasSubstr("can't end: rank 1 waits for what it needs"));
  plan = good;
  plan.actions[0][0].micro_batch = 1;
  EXPECT_THAT(refusal(plan), HasSubstr("has micro-batch 1 of chunk 0, expected less than 1 and 1"));
  plan = good;
  plan.actions = {{plan.actions[0][0]}, {}};
  plan.actions[1].push_back(good.actions[1][0]);
  EXPECT_THAT(refusal(plan), HasSubstr("posted, but nothing sent"));
}

TEST(PipelineSchedule, PassesAreKnownByTheirNames) {
  const PipelinePass pass{PipelineWork::weight_gradient, 12, 3};
  EXPECT_EQ(name_of(pass), "weight gradient stage 12 micro-batch 3");
  EXPECT_EQ(pipeline_pass_named(name_of(pass)), pass);
  for (const auto* name : {"forward", "forward stage x micro-batch 1", "send stage 1 micro-batch 1",
                           "forward stage 1 micro-batch", "forward stage 1 micro-batch 2 more"})
    EXPECT_EQ(pipeline_pass_named(name), std::nullopt) << name;
}

TEST(PipelineSchedule, RefusesNumbersThatMakeNoPipeline) {
  const auto refused = [](const PipelineShape& shape) {
    return message_of<InputError>([&] { (void)plan_pipeline(shape); });
  };
  EXPECT_EQ(refused({PipelineSchedule::gpipe, 2, 0}),
            "pipeline: 2 ranks, 0 micro-batches and 1 chunks per rank, expected 1 or more of each");
  EXPECT_EQ(refused({PipelineSchedule::one_f_one_b, 2, 4, 2}),
            "pipeline: schedule 1f1b has 1 chunk per rank, not 2; use interleaved");
  EXPECT_THAT(refused({PipelineSchedule::gpipe, 1 << 16, 1 << 16}),
              HasSubstr("more than can be numbered"));
  EXPECT_THAT(message_of<Error>([] { (void)pipeline_computations({}, 1); }),
              HasSubstr("rank 1 of a pipeline of 1 ranks"));
  const auto plan = plan_pipeline({PipelineSchedule::gpipe, 2, 1});
  EXPECT_THAT(message_of<InputError>([&] {
                (void)play_pipeline(plan, {{StageTimes{}}, 0});
              }),
              HasSubstr("times of 1 stages, expected 2"));
  EXPECT_THAT(message_of<InputError>([&] {
                (void)play_pipeline(plan, {{}, -1});
              }),
              HasSubstr("negative or not finite"));
}

}  // namespace
}  // namespace kolo
