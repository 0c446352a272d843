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
#include "support/says.h"

namespace kolo::testing {
namespace {

constexpr std::array schedules{PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b};

std::string describe(const PipelineShape& shape) {
  return fmt::format("{} p={} m={}", name_of(shape.schedule), shape.ranks, shape.micro_batches);
}

bool is_message(const PipelineAction& action) {
  return action.work == PipelineWork::send || action.work == PipelineWork::receive;
}

// "F0 F1 B0 F2 ...", and with messages "ra1" for receiving an activation, "sg0" for sending a
// gradient.
std::string list_of(const PipelineShape& shape, int rank, bool with_messages = false) {
  std::string text;
  for (const auto& action : pipeline_actions(shape, rank)) {
    if (is_message(action)) {
      if (!with_messages) continue;
      text += action.work == PipelineWork::send ? "s" : "r";
      text += action.payload == PipelinePayload::activation ? "a" : "g";
    } else {
      text += action.work == PipelineWork::forward ? "F" : "B";
    }
    text += fmt::format("{} ", action.micro_batch);
  }
  return text;
}

TEST(PipelineSchedule, ListsOfSmallPipelines) {
  EXPECT_EQ(list_of({PipelineSchedule::gpipe, 2, 3}, 0), "F0 F1 F2 B0 B1 B2 ");
  EXPECT_EQ(list_of({PipelineSchedule::one_f_one_b, 3, 4}, 0), "F0 F1 F2 B0 F3 B1 B2 B3 ");
  EXPECT_EQ(list_of({PipelineSchedule::one_f_one_b, 3, 4}, 2), "F0 B0 F1 B1 F2 B2 F3 B3 ");
  EXPECT_EQ(list_of({PipelineSchedule::one_f_one_b, 3, 2}, 1, true),
            "ra0 ra1 F0 sa0 rg0 F1 sa1 rg1 B0 sg0 B1 sg1 ");
}

// Each micro-batch once forward and once backward, in the order of the micro-batches, and nothing
// else.
void expect_all_computed(const PipelinePlan& plan) {
  for (const auto& list : plan.actions) {
    std::map<PipelineWork, int> done;
    for (const auto& action : list) {
      if (is_message(action)) continue;
      EXPECT_EQ(action.micro_batch, done[action.work]++);
      EXPECT_LE(done[PipelineWork::backward], done[PipelineWork::forward]);
    }
    EXPECT_EQ(done,
              (std::map<PipelineWork, int>{{PipelineWork::forward, plan.shape.micro_batches},
                                           {PipelineWork::backward, plan.shape.micro_batches}}));
  }
}

// Every send has its receive at the peer, under a tag of its own, and all activations and gradients
// travel.
void expect_messages_match(const PipelinePlan& plan) {
  const auto& shape = plan.shape;
  using Ends = std::map<std::tuple<int, int, int>, std::pair<PipelinePayload, int>>;
  Ends sent, received;  // by sender, receiver and tag
  for (int rank = 0; rank < shape.ranks; ++rank) {
    for (const auto& action : plan.actions[static_cast<std::size_t>(rank)]) {
      if (!is_message(action)) continue;
      const bool is_send = action.work == PipelineWork::send;
      const int peer = peer_of(action, rank), tag = tag_of(action.payload, action.micro_batch);
      const std::tuple key{is_send ? rank : peer, is_send ? peer : rank, tag};
      EXPECT_TRUE((is_send ? sent : received)
                      .insert({key, std::pair(action.payload, action.micro_batch)})
                      .second);
    }
  }
  EXPECT_EQ(sent, received);
  EXPECT_EQ(std::ssize(sent), 2 * shape.micro_batches * (shape.ranks - 1));
}

int most_kept(const PipelineShape& shape, int rank) {
  return shape.schedule == PipelineSchedule::gpipe
             ? shape.micro_batches
             : std::min(shape.micro_batches, shape.ranks - rank);
}

void expect_kept(const PipelinePlan& plan, const PipelinePlay& play) {
  for (int rank = 0; rank < plan.shape.ranks; ++rank) {
    EXPECT_EQ(play.ranks[static_cast<std::size_t>(rank)].most_kept, most_kept(plan.shape, rank));
  }
}

PipelineTimes random_times(std::mt19937_64& random, int stages) {
  PipelineTimes times{{}, static_cast<double>(random() % 5)};
  for (int stage = 0; stage < stages; ++stage)
    times.stages.push_back({static_cast<double>(random() % 9), static_cast<double>(random() % 18)});
  return times;
}

TEST(PipelineSchedule, RandomPipelinesEndAndComputeEverythingOnce) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    const auto schedule = schedules[static_cast<std::size_t>(i) % schedules.size()];
    const PipelineShape shape{schedule, static_cast<int>(1 + random() % 7),
                              static_cast<int>(1 + random() % 12)};
    SCOPED_TRACE(describe(shape));
    const auto plan = plan_pipeline(shape);
    const auto times = random_times(random, shape.ranks);
    const auto play = play_pipeline(plan, times);  // throws where the lists can't end
    expect_kept(plan, play);
    if (i % 8 >= 4) continue;  // what takes longer
    expect_all_computed(plan);
    expect_messages_match(plan);
  }
}

TEST(PipelineSchedule, IdleSharesAreThoseOfTheFormula) {
  for (const auto schedule : schedules) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (int micro_batches = 1; micro_batches <= 24; ++micro_batches) {
        const PipelineShape shape{schedule, ranks, micro_batches};
        SCOPED_TRACE(describe(shape));
        EXPECT_NEAR(play_pipeline(plan_pipeline(shape)).idle_fraction(), ideal_idle_fraction(shape),
                    1e-12);
      }
    }
  }
}

// Sends before the receives that the other end sends before: each waits for the other.
TEST(PipelineSchedule, APlayNoticesThatAScheduleCannotEnd) {
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
      for (auto position = i; !(list[position + 1].work == user &&
                                list[position + 1].micro_batch == receive.micro_batch);
           ++position) {
        std::swap(list[position], list[position + 1]);
      }
      if (!(list[i] == receive)) --i;
    }
  }
  EXPECT_THROW((void)play_pipeline(plan), Error);
}

TEST(PipelineSchedule, PassesAreKnownByTheirNames) {
  const PipelinePass pass{PipelineWork::backward, 12, 3};
  EXPECT_EQ(name_of(pass), "backward stage 12 micro-batch 3");
  EXPECT_EQ(pipeline_pass_named(name_of(pass)), pass);
  for (const auto* name : {"forward", "forward stage x micro-batch 1", "send stage 1 micro-batch 1",
                           "forward stage 1 micro-batch", "forward stage 1 micro-batch 2 more"})
    EXPECT_EQ(pipeline_pass_named(name), std::nullopt) << name;
}

TEST(PipelineSchedule, RefusesNumbersThatMakeNoPipeline) {
  const auto refused = [](const PipelineShape& shape) {
    return message_of<InputError>([&] { (void)pipeline_actions(shape, 0); });
  };
  EXPECT_EQ(refused({PipelineSchedule::gpipe, 2, 0}),
            "pipeline: 2 ranks and 0 micro-batches, expected 1 or more of each");
  EXPECT_TRUE(says(refused({PipelineSchedule::gpipe, 1, 1 << 30}), {"more than can be numbered"}));
  EXPECT_TRUE(says(message_of<Error>([] { (void)pipeline_actions({}, 1); }),
                   {"rank 1 of a pipeline of 1 ranks"}));
}

}  // namespace
}  // namespace kolo::testing
