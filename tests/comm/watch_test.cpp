// The watch over ranks that are threads; over processes: watch_jobs_test.cpp.
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "comm/watch/stall.h"
#include "kolo/base/error.h"
#include "kolo/comm/threads.h"
#include "kolo/comm/watch.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/watch_messages.h"

namespace kolo {
namespace {

using testing::message_of;
using testing::WatchMessages;

void reduce(const Communicator& communicator, const std::string& name) {
  std::vector<float> values(100, 1.0F);
  communicator.all_reduce(std::span(values), ReduceOp::average, {.name = name});
}

TEST(Watch, NamesTheCollectiveWhoHasNotComeAndWhatItDidLast) {
  WatchMessages messages;
  messages.watch(3, .05, [&](const Communicator& communicator) {
    reduce(communicator, "bucket 2");
    if (communicator.rank() == 1)
      messages.wait_for({"bucket 3", "rank 0, 2; not arrived: rank 1 last completed"});
    reduce(communicator, "bucket 3");
    messages.wait_for({"bucket 3", "went on after"});
  });
  EXPECT_THAT(
      messages.all(),
      Contains(AllOf(HasSubstr("call 2, all-reduce (average) of 100 float32, \"bucket 3\""),
                     HasSubstr("arrived: rank 0, 2; not arrived: rank 1 last completed "
                               "call 1, all-reduce (average) of 100 float32, \"bucket 2\""))));
}

TEST(Watch, KnowsAsynchronousCollectivesAndThoseInsideTasks) {
  const std::vector<std::string> told{"\"second\"", "rank 1 last completed call 1.1"};
  WatchMessages messages;
  messages.watch(2, .05, [&](const Communicator& communicator) {
    Work work;
    if (communicator.rank() == 0) {
      work = communicator.enqueue(
          [](const Communicator& ranks) {
            reduce(ranks, "first");
            reduce(ranks, "second");
          },
          {.name = "compression"});
    } else {
      work = communicator.enqueue([&](const Communicator& ranks) {
        reduce(ranks, "first");
        messages.wait_for(told);
        reduce(ranks, "second");
      });
    }
    work.wait();
  });
  EXPECT_TRUE(
      says(messages.wait_for(told), {"call 1.2, all-reduce (average) of 100 float32, \"second\""}));
}

TEST(Watch, OfASetOfRanksOnlyMembersAreMissing) {
  WatchMessages messages;
  messages.watch(4, .05, [&](const Communicator& communicator) {
    const auto half = communicator.split(communicator.rank() % 2);
    if (communicator.rank() == 3) messages.wait_for({"odd ones", "not arrived: rank 3"});
    half->barrier({.name = "odd ones"});
  });
  const auto told = messages.wait_for({"odd ones", "not arrived: rank 3"});
  EXPECT_THAT(told, AllOf(HasSubstr("arrived: rank 1; not arrived: rank 3"),
                          HasSubstr("of a set of ranks"), Not(HasSubstr("rank 0"))));
}

TEST(Watch, TellsAgainAfterTwiceTheTimeOnly) {
  constexpr double warning = .04;
  WatchMessages messages;
  const auto begin = std::chrono::steady_clock::now();
  messages.watch(2, warning, [&](const Communicator& communicator) {
    if (communicator.rank() == 1) messages.wait_for(3);
    communicator.barrier();
  });
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
  const auto all = messages.all();
  ASSERT_GE(all.size(), 3U);
  EXPECT_THAT(std::vector(all.begin(), all.begin() + 3), Each(HasSubstr("not arrived: rank 1")));
  // A busy machine may keep rank 1 for longer; then the wait's end is told, too.
  EXPECT_LE(static_cast<double>(all.size()), 2 + std::log2(waited.count() / warning));
}

TEST(Watch, AfterTheLimitEveryRankWritesAndTheJobEnds) {
  WatchMessages messages;
  std::atomic<int> told = 0;
  const auto body = [&](const Communicator& communicator) {
    reduce(communicator, "bucket 7");
    // Rank 2 leaves when nobody waits any more: the watch would report that.
    while (communicator.rank() == 2 && told < 2)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    try {
      reduce(communicator, "bucket 8");
    } catch (const CommunicationError&) {
      ++told;
      throw;
    }
  };
  const auto message = message_of<CommunicationError>(
      [&] { run_as_threads(3, body, {.watch = messages.options(.1, 1)}); });
  EXPECT_TRUE(says(message, {"gave up"}));
  EXPECT_THAT(messages.all(), Contains(HasSubstr("the limit")));
  EXPECT_TRUE(says(messages.file_of(0), {"bucket 7", "bucket 8"}));
  EXPECT_THAT(messages.file_of(2), AllOf(HasSubstr("bucket 7"), Not(HasSubstr("bucket 8"))));
}

TEST(Watch, NamesATransferWhosePeerHasNotCome) {
  WatchMessages messages;
  messages.watch(3, .05, [&](const Communicator& communicator) {
    std::vector<float> values(100);
    const auto set = communicator.split(communicator.rank() == 1 ? -1 : 0);
    if (communicator.rank() == 0) set->receive(std::span(values), 1, 7, {.name = "activations"});
    if (communicator.rank() == 2) {
      messages.wait_for({"rank 0 has waited", "tag 7"});
      set->send(std::span(values), 0, 7);
    }
    messages.wait_for({"tag 7", "went on after"});
  });
  EXPECT_TRUE(says(messages.wait_for({"rank 0 has waited", "tag 7"}),
                   {"rank 0 has waited",
                    "transfer 1, receive of 100 float32 (400 bytes) from rank 2, tag 7, "
                    "\"activations\" of another communicator",
                    "not come: rank 2 has not completed any"}));
}

constexpr std::int64_t second = 1'000'000'000;  // in nanoseconds

// Status of a rank that is in call `number` since `waiting` nanoseconds by the clock.
RankStatus waiting_rank(int rank, std::uint64_t number, std::int64_t waiting) {
  RankStatus status;
  status.rank = rank;
  LaneStatus lane{.identity = 1, .waiting = waiting};
  lane.running.number = number;
  status.lanes.push_back(lane);
  return status;
}

TEST(WatchWaitingTimes, CountOnlyTimeInWhichTheWatchRan) {
  WaitingTimes times(20);
  const auto waited = [&](std::int64_t now, std::uint64_t number, std::int64_t by_clock) {
    times.look(now);
    auto status = waiting_rank(0, number, by_clock);
    times.correct(status);
    return status.longest_wait();
  };
  EXPECT_EQ(waited(1000, 7, 5), 5);  // begun since the last look
  EXPECT_EQ(waited(1010, 7, 15), 15);
  EXPECT_EQ(waited(9010, 7, 8015), 35);  // suspended: one step counts
  EXPECT_EQ(waited(9020, 7, 8025), 45);
  EXPECT_EQ(waited(9030, 8, 3), 3);       // another collective
  EXPECT_EQ(waited(19030, 9, 9990), 20);  // begun before a suspension
}

// A rank that ends the job says why itself; the watch reports other departures.
TEST(WatchDeparture, OfARankThatSaysWhyIsNotReportedForAWhile) {
  std::vector<RankStatus> statuses = {waiting_rank(0, 9, 2 * second), waiting_rank(1, 8, 0)};
  statuses[1].lanes[0].running = {};
  statuses[1].state = ProcessState::gone;
  EXPECT_TRUE(says(find_departure(statuses, second).value_or(""), {"rank 1 has left"}));
  statuses[1].says_why = true;
  EXPECT_EQ(find_departure(statuses, second), std::nullopt);
  EXPECT_EQ(
      find_departure(std::vector{statuses[0], from_bytes(to_bytes(statuses[1])).value()}, second),
      std::nullopt);
  statuses[0].lanes[0].waiting = 60 * second;
  EXPECT_TRUE(says(find_departure(statuses, second).value_or(""), {"rank 1 has left"}))
      << "it should have ended the job long ago";
}

TEST(WatchDeparture, OfATransfersPeerEndsTheJob) {
  std::vector<RankStatus> statuses(2);
  statuses[1].rank = 1;
  LaneStatus transfer{.identity = Lane::identity_of_transfer(0, 5), .waiting = 2 * second};
  transfer.running.collective = Collective::receive;
  transfer.running.number = 3;
  transfer.running.peer = 1;
  transfer.running.tag = 8;
  statuses[0].lanes = {transfer};
  EXPECT_EQ(find_departure(statuses, second), std::nullopt);
  statuses[1].lanes.push_back({.identity = 1, .has_left = 1});
  const auto what_is_said = HasSubstr(
      "rank 1 has left, but rank 0 has waited for it 2.0 s in transfer 3, receive of 0 uint8 (0 "
      "bytes) from rank 1, tag 8");
  EXPECT_THAT(find_departure(statuses, second).value_or(""), what_is_said);
  // Both have come: the bytes may be on their way.
  statuses[0].lanes[0].running.started = 1;
  EXPECT_EQ(find_departure(statuses, second), std::nullopt);
  statuses[0].lanes[0].waiting = 20 * second;
  EXPECT_NE(find_departure(statuses, second), std::nullopt);
}

TEST(WatchDeparture, IsMissedByRanksThatHaveJoined) {
  std::vector<RankStatus> statuses = {waiting_rank(0, 0, 0), waiting_rank(1, 0, 0)};
  statuses[0].lanes[0].joined = 2 * second;
  EXPECT_EQ(find_departure(statuses, second), std::nullopt);
  statuses[1].lanes[0].has_left = 1;
  EXPECT_TRUE(says(find_departure(statuses, second).value_or(""),
                   {"rank 1 has left without join(), for which rank 0 has waited 2.0 s"}));
  // Rank 1 has joined as well, and gone on; rank 0's join is about to end.
  statuses[1].lanes[0].joins = 1;
  EXPECT_EQ(find_departure(statuses, second), std::nullopt);
}

// Rank 0 waits in the job's communicator, rank 1 in a set of both.
std::vector<RankStatus> crossed_ranks(std::int64_t waiting) {
  std::vector<RankStatus> statuses = {waiting_rank(0, 9, waiting), waiting_rank(1, 5, waiting)};
  statuses[0].lanes.push_back({.identity = 7});
  statuses[1].lanes[0].identity = 7;
  statuses[1].lanes.push_back({.identity = 1});
  for (auto& status : statuses) {
    status.has_one_caller = true;
    status.lanes[0].is_awaited = 1;
  }
  return statuses;
}

TEST(WatchDeadlock, IsACircleOfRanksThatWait) {
  const auto statuses = crossed_ranks(2 * second);
  EXPECT_TRUE(says(find_deadlock(statuses, second).value_or(""),
                   {"ranks wait for each other since 2.0 s", "rank 0 waits for rank 1 in call 9",
                    "rank 1 waits for rank 0 in call 5", "another communicator"}));
  EXPECT_EQ(find_deadlock(statuses, 3 * second), std::nullopt);
  std::vector<RankStatus> as_told;
  for (const auto& status : statuses) as_told.push_back(from_bytes(to_bytes(status)).value());
  EXPECT_EQ(find_deadlock(as_told, second), find_deadlock(statuses, second));
}

TEST(WatchDeadlock, IsNoneWhereSomebodyMayGoOn) {
  const auto is_deadlock = [&](auto change) {
    auto statuses = crossed_ranks(2 * second);
    change(statuses);
    return find_deadlock(statuses, second).has_value();
  };
  EXPECT_TRUE(is_deadlock([](auto&) {}));
  EXPECT_FALSE(is_deadlock([](auto& ranks) { ranks[1].has_one_caller = false; }))
      << "another thread may come";
  EXPECT_FALSE(is_deadlock([](auto& ranks) { ranks[1].lanes[0].is_awaited = 0; }))
      << "its thread computes";
  EXPECT_FALSE(is_deadlock([](auto& ranks) { ranks[1].state = ProcessState::stopped; }))
      << "it may be continued";
  EXPECT_FALSE(is_deadlock([](auto& ranks) { ranks[1].is_watching = false; }))
      << "nothing is known of it";
  EXPECT_FALSE(is_deadlock([](auto& ranks) { ranks[1].lanes[1].asked = 9; }))
      << "it has been asked for";
  EXPECT_FALSE(is_deadlock([](auto& ranks) { ranks[1].lanes[1].identity = 11; }))
      << "it is no member, or not known";
}

TEST(WatchDeadlock, IsWhereRanksAreInDifferentCollectivesInOnePlace) {
  std::vector<RankStatus> statuses = {waiting_rank(0, 9, 2 * second),
                                      waiting_rank(1, 9, 2 * second)};
  EXPECT_EQ(find_deadlock(statuses, second), std::nullopt);
  statuses[1].lanes[0].running.collective = Collective::broadcast;
  EXPECT_TRUE(says(
      find_deadlock(statuses, second).value_or(""),
      {"rank 0 is in call 9", "and rank 1 in call 9, broadcast", "they differ in the collective"}));
}

TEST(WatchStall, OfASetTellsWhoIsMissingAndWhereElseItWaits) {
  constexpr std::int64_t minute = 60 * second;
  std::vector<RankStatus> statuses = {waiting_rank(0, 9, minute), waiting_rank(1, 5, minute)};
  statuses[0].lanes[0].identity = 7;  // a set, of which rank 0 waits
  statuses[0].lanes[0].members = 3;
  statuses[1].lanes[0].identity = 8;  // rank 1 waits in another one
  statuses[1].lanes.push_back({.identity = 7, .members = 3});
  const auto stalls = find_stalls(statuses, 4, minute);
  ASSERT_EQ(stalls.size(), 2U);
  EXPECT_THAT(stalls[0].report,
              AllOf(HasSubstr("and waits in call 5"), HasSubstr("of another communicator"),
                    HasSubstr("of 1 more nothing is known here"), Not(HasSubstr("which is all"))));
}

TEST(WatchStall, ManyRanksAreToldShortly) {
  std::vector<RankStatus> statuses;
  for (int rank = 0; rank < 99; ++rank) {
    auto status = rank < 50 ? waiting_rank(rank, 9, 61 * second) : waiting_rank(rank, 0, 0);
    LaneStatus& lane = status.lanes[0];
    lane.running.collective = lane.completed.collective = Collective::barrier;
    lane.completed.number = 8;
    lane.completed_age = 62 * second;
    statuses.push_back(status);
  }
  const auto stalls = find_stalls(statuses, 100, 60 * second);
  ASSERT_EQ(stalls.size(), 1U);
  EXPECT_THAT(stalls[0].report,
              AllOf(HasSubstr("ranks have waited 61.0 s in call 9, barrier; arrived: rank 0-49; "
                              "not arrived: rank 50 last completed call 8, barrier, 62.0 s ago"),
                    HasSubstr("rank 57"), Not(HasSubstr("rank 58")), HasSubstr("and 41 more ranks"),
                    HasSubstr("nothing is known here of rank 99")));
}

}  // namespace
}  // namespace kolo
