#include <chrono>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "comm/call_recorder.h"
#include "comm/typed_values.h"
#include "kolo/base/error.h"
#include "kolo/base/random.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/rank_test.h"
#include "support/says.h"

// Messages between two ranks, over every back end.
namespace kolo::testing {

namespace {

using Bytes = std::vector<std::uint8_t>;

// Message number `number` of a rank to another with a tag; quick to make and to compare.
Bytes message(int from, int to, int tag, int number, std::size_t bytes) {
  Bytes values(bytes);
  auto value = static_cast<std::uint32_t>(from * 7 + to * 31 + tag * 101 + number * 13);
  for (auto& each : values) each = static_cast<std::uint8_t>(value += 37);
  return values;
}

// The same for both ends: small ones, odd ones, and some that take several pieces.
std::size_t random_size(int from, int to, int number) {
  constexpr std::size_t sizes[] = {0, 1, 3, 64, 511, 4097, 30'011, 300'001};
  CounterRandom random(5, static_cast<std::uint32_t>(from * 16 + to),
                       static_cast<std::uint64_t>(number));
  return sizes[random.next() % std::size(sizes)];
}

bool runs_beside_collectives(const Communicator& communicator) {
  return communicator.capabilities().concurrent;
}

RANK_TEST(Transfers, EveryType) {
  const int size = communicator.size(), rank = communicator.rank();
  if (size == 1) return;
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  for (const DataType type : all_data_types) {
    for (const std::int64_t count : {0, 1, 1001}) {
      TypedValues sent(type, count), received(type, count);
      for (std::int64_t i = 0; i < count; ++i) sent.set(i, static_cast<double>((rank + i) % 2));
      communicator.exchange(std::vector{Transfer::send(sent.buffer(), next),
                                        Transfer::receive(received.buffer(), before)});
      for (std::int64_t i = 0; i < count; ++i)
        ASSERT_EQ(received.get(i), static_cast<double>((before + i) % 2)) << name_of(type);
    }
  }
}

RANK_TEST(Transfers, BothMaySendFirst) {
  const int size = communicator.size(), rank = communicator.rank();
  const int peer = rank ^ 1;
  if (peer >= size) return;
  constexpr std::size_t bytes = 2'500'001;
  const Bytes sent = message(rank, peer, 0, 0, bytes);
  Bytes received(bytes);
  const Work sending = communicator.send_async(std::span(sent), peer);
  communicator.receive(std::span(received), peer);
  sending.wait();
  EXPECT_EQ(received, message(peer, rank, 0, 0, bytes));
}

// All pairs, several tags, in a random order of their own on each rank: those of one peer and tag
// arrive in order.
RANK_TEST(Transfers, InAnyOrderOfPeersAndTags) {
  const int size = communicator.size(), rank = communicator.rank();
  constexpr int tags = 3, messages = 4;
  struct End {
    int peer, tag;
    bool is_send;
    int next = 0;
  };
  std::vector<End> ends;
  for (int peer = 0; peer < size; ++peer) {
    for (int tag = 0; tag < tags && peer != rank; ++tag) {
      ends.push_back({peer, tag * 1000, true});
      ends.push_back({peer, tag * 1000, false});
    }
  }
  CounterRandom random(11, static_cast<std::uint32_t>(rank), 0);
  std::vector<Bytes> sent, received, expected;
  const std::size_t total = ends.size() * messages;
  sent.reserve(total);
  received.reserve(total);
  std::vector<Work> works;
  while (!ends.empty()) {
    End& end = ends[random.next() % ends.size()];
    const int number = end.next++;
    if (end.is_send) {
      sent.push_back(message(rank, end.peer, end.tag, number, random_size(rank, end.peer, number)));
      works.push_back(
          communicator.send_async(std::span(std::as_const(sent.back())), end.peer, end.tag));
    } else {
      expected.push_back(
          message(end.peer, rank, end.tag, number, random_size(end.peer, rank, number)));
      received.emplace_back(expected.back().size());
      works.push_back(communicator.receive_async(std::span(received.back()), end.peer, end.tag));
    }
    if (end.next == messages) ends.erase(ends.begin() + (&end - ends.data()));
  }
  for (const Work& work : works) work.wait();
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_TRUE(received[i] == expected[i]) << i;
}

// More than there is room to tell of at a time, before anybody receives.
RANK_TEST(Transfers, ManyMayWait) {
  const int size = communicator.size(), rank = communicator.rank();
  if (size == 1) return;
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  std::vector<int> sent(150), received(sent.size());
  std::iota(sent.begin(), sent.end(), 1000 * rank);
  std::vector<Work> works;
  for (const int& value : sent)
    works.push_back(communicator.send_async(std::span(&value, 1), next));
  if (runs_beside_collectives(communicator)) communicator.barrier();
  for (int& value : received)
    works.push_back(communicator.receive_async(std::span(&value, 1), before));
  for (const Work& work : works) {
    while (!work.wait_for(std::chrono::milliseconds(1))) {
    }
  }
  std::iota(sent.begin(), sent.end(), 1000 * before);
  EXPECT_EQ(received, sent);
}

// Collectives and transfers in another order on each rank, on the caller's thread and on the
// communication thread.
RANK_TEST(Transfers, StandOutsideTheOrderOfCollectives) {
  const int size = communicator.size(), rank = communicator.rank();
  if (size == 1 || !runs_beside_collectives(communicator)) return;
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  constexpr std::size_t bytes = 40'003;
  for (int round = 0; round < 6; ++round) {
    const Bytes sent = message(rank, next, 0, round, bytes);
    Bytes received(bytes);
    std::vector<float> values(2000, 1);
    const auto transfer = [&] {
      communicator.exchange(std::vector{Transfer::receive(std::span(received), before),
                                        Transfer::send(std::span(sent), next)});
    };
    Work reducing;
    if ((rank + round) % 3 == 0) {
      const Work receiving = communicator.receive_async(std::span(received), before);
      const Work sending = communicator.send_async(std::span(sent), next);
      communicator.all_reduce(std::span(values));
      receiving.wait();
      sending.wait();
    } else if ((rank + round) % 3 == 1) {
      reducing = communicator.all_reduce_async(std::span(values));
      transfer();
    } else {
      transfer();
      communicator.all_reduce(std::span(values));
    }
    reducing.wait();
    EXPECT_THAT(values, ::testing::Each(static_cast<float>(size)));
    ASSERT_TRUE(received == message(before, rank, 0, round, bytes));
  }
}

RANK_TEST(Transfers, MayBeAskedForInATask) {
  const int size = communicator.size(), rank = communicator.rank();
  if (size == 1) return;
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  int sent = rank, received = -1;
  communicator
      .enqueue([&](const Communicator& inside) {
        inside.exchange(std::vector{Transfer::receive(std::span(&received, 1), before),
                                    Transfer::send(std::span(&sent, 1), next)});
        EXPECT_EQ(all_reduce_value(inside, 1), size);
      })
      .wait();
  EXPECT_EQ(received, before);
}

RANK_TEST(Transfers, OfSetsAndOrdersOfTheirOwnAreApart) {
  const int size = communicator.size(), rank = communicator.rank();
  if (size == 1) return;
  const auto order = communicator.with_own_order();
  const auto set = communicator.split(0, -rank);  // the other way round
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  const std::vector<int> sent = {rank, 100 + rank, 200 + rank};
  std::vector<int> received(3);
  const std::vector works = {
      communicator.receive_async(std::span(&received[0], 1), before),
      order.receive_async(std::span(&received[1], 1), before,
                          runs_beside_collectives(order) ? 0 : 1),
      set->receive_async(std::span(&received[2], 1), size - 1 - before),
      set->send_async(std::span(&sent[2], 1), size - 1 - next),
      order.send_async(std::span(&sent[1], 1), next, runs_beside_collectives(order) ? 0 : 1),
      communicator.send_async(std::span(&sent[0], 1), next)};
  for (const Work& work : works) work.wait();
  EXPECT_THAT(received, ::testing::ElementsAre(before, 100 + before, 200 + before));
}

// Both ends get the same words, and continue.
RANK_TEST(TransferMistakes, OfCountOrTypeAreToldOnBothEnds) {
  const int size = communicator.size(), rank = communicator.rank();
  if (size == 1) return;
  std::vector<float> floats(5);
  std::vector<int> ints(5);
  const auto expect = [&](const auto& call, const std::string& what) {
    EXPECT_TRUE(says(message_of<Error>(call),
                     {fmt::format("transfer from rank 0 to rank {}, tag 7", size - 1),
                      "rank 0 sends 4 float32", what}));
  };
  const auto of_count = fmt::format("rank {} receives 5 float32", size - 1);
  const auto of_type = fmt::format("rank {} receives 4 int32", size - 1);
  if (rank == 0) {
    expect([&] { communicator.send(std::span(floats).first(4), size - 1, 7); }, of_count);
    expect([&] { communicator.send(std::span(floats).first(4), size - 1, 7); }, of_type);
    communicator.send(std::span(ints).first(2), size - 1, 7);
  } else if (rank == size - 1) {
    expect([&] { communicator.receive(std::span(floats), 0, 7); }, of_count);
    expect([&] { communicator.receive(std::span(ints).first(4), 0, 7); }, of_type);
    communicator.receive(std::span(ints).first(2), 0, 7);
  }
}

// Transfers of an exchange that are right are done all the same.
RANK_TEST(TransferMistakes, InAnExchangeLeaveTheRestDone) {
  const int size = communicator.size(), rank = communicator.rank();
  if (size == 1) return;
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  const Bytes sent = message(rank, next, 0, 0, 5000);
  Bytes received(5000), wrong(3);
  EXPECT_TRUE(says(message_of<Error>([&] {
                     communicator.exchange(
                         std::vector{Transfer::send(std::span(sent).first(4), next, 1),
                                     Transfer::send(std::span(sent), next),
                                     Transfer::receive(std::span(wrong), before, 1),
                                     Transfer::receive(std::span(received), before)});
                   }),
                   {"receives 3 uint8"}));
  EXPECT_EQ(received, message(before, rank, 0, 0, 5000));
}

RANK_TEST(TransferMistakes, OfOneRankAloneAreToldAtOnce) {
  const int size = communicator.size(), rank = communicator.rank();
  int value = 0;
  const auto expect = [](const auto& call, const std::string& words) {
    EXPECT_TRUE(says(message_of<Error>(call), {words}));
  };
  if (size == 1) {
    expect([&] { communicator.send(std::span(&value, 1), 0); }, "peer 0 is this rank itself");
    return communicator.exchange({});
  }
  expect([&] { communicator.send(std::span(&value, 1), size); },
         fmt::format("send: peer {} is not a rank", size));
  expect([&] { communicator.receive(std::span(&value, 1), -1); }, "receive: peer -1 is not a rank");
  expect([&] { communicator.send(std::span(&value, 1), rank); }, "is this rank itself");
  expect([&] { communicator.send(std::span(&value, 1), rank == 0 ? 1 : 0, -2); },
         "tag -2; expected 0 or more");
  expect([&] { communicator.receive(Buffer(nullptr, 3, DataType::uint8), rank == 0 ? 1 : 0); },
         "the received buffer has 3 elements");
  // Nothing of an exchange with such a mistake is asked for.
  expect(
      [&] {
        communicator.exchange(std::vector{Transfer::send(std::span(&value, 1), rank == 0 ? 1 : 0),
                                          Transfer::send(std::span(&value, 1), rank)});
      },
      "is this rank itself");
  communicator.exchange({});
}

// So that a ring needs no case of its own for one rank.
RANK_TEST(Transfers, AnExchangeDoesARanksMessagesToItself) {
  const int size = communicator.size(), rank = communicator.rank();
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  const std::array<int, 5> sent{rank, 1, 2, 3, 4};
  std::array<int, 5> first{}, second{}, from_before{};
  communicator.exchange(std::vector{Transfer::send(std::span(sent).first(2), rank, 7),
                                    Transfer::send(std::span(sent), next),
                                    Transfer::receive(std::span(first).first(2), rank, 7),
                                    Transfer::receive(std::span(from_before), before),
                                    Transfer::send(std::span(sent).last(3), rank, 7),
                                    Transfer::receive(std::span(second).first(3), rank, 7)});
  EXPECT_THAT(first, ElementsAre(rank, 1, 0, 0, 0));
  EXPECT_THAT(second, ElementsAre(2, 3, 4, 0, 0)) << "in their order";
  EXPECT_EQ(from_before[0], before);
  EXPECT_TRUE(says(message_of<Error>([&] {
                     communicator.exchange(
                         std::vector{Transfer::send(std::span(sent).first(2), rank),
                                     Transfer::receive(std::span(first).first(3), rank)});
                   }),
                   {"sends itself 2 int32", "receives 3 int32"}));
}

// In shared memory; between nodes it is the watch that ends the job.
RANK_TEST(TransferEnds, ARankThatHasLeftIsNamed) {
  const int size = communicator.size(), rank = communicator.rank();
  const bool ranks_see_each_other =
      communicator.capabilities().shared_memory && communicator.topology().nodes == 1;
  auto set = communicator.split(0);
  std::vector<float> values(100'000);
  if (size > 1 && rank == size - 1) {
    // A message that was sent before arrives.
    if (ranks_see_each_other) set->send(std::span(values), 0, 1);
    set.reset();
  } else if (size > 1 && rank == 0 && ranks_see_each_other) {
    set->receive(std::span(values), size - 1, 1);
    const auto what_is_said =
        HasSubstr(fmt::format("can't be completed, because rank {} has left", size - 1));
    EXPECT_THAT(
        message_of<CommunicationError>([&] { set->receive(std::span(values), size - 1, 2); }),
        what_is_said);
    const Work work = set->send_async(std::span(values), size - 1, 2);
    EXPECT_THAT(message_of<CommunicationError>([&] { work.wait(); }), what_is_said);
  }
  communicator.barrier();
}

RANK_TEST(TransferEnds, AHandleMayGoWhileTransfersArePending) {
  const int size = communicator.size(), rank = communicator.rank();
  if (size == 1) return;
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  const Bytes sent = message(rank, next, 0, 0, 300'000);
  Bytes received(300'000);
  Work receiving;
  {
    const auto set = communicator.split(0);
    receiving = set->receive_async(std::span(received), before);
    (void)set->send_async(std::span(sent), next);
  }
  EXPECT_TRUE(receiving.is_done());
  receiving.wait();
  EXPECT_EQ(received, message(before, rank, 0, 0, 300'000));
}

RANK_TEST(Transfers, ListenersAreToldPeerAndTag) {
  const int size = communicator.size(), rank = communicator.rank();
  if (size == 1) return;
  const auto recorder = std::make_shared<CallRecorder>();
  communicator.add_listener(recorder);
  std::vector<float> values(3);
  if (rank == 0) {
    communicator.send(std::span(values), 1, 9, {.name = "a"});
    const std::string what = "send of 3 float32 (12 bytes) to rank 1, tag 9 \"a\"";
    EXPECT_THAT(recorder->take(),
                ::testing::ElementsAre("submit " + what, "start " + what, "finish " + what));
  } else if (rank == 1) {
    communicator.receive(std::span(values), 0, 9);
    const std::string what = "receive of 3 float32 (12 bytes) from rank 0, tag 9 \"\"";
    EXPECT_THAT(recorder->take(),
                ::testing::ElementsAre("submit " + what, "start " + what, "finish " + what));
  }
  communicator.remove_listener(recorder);
}

}  // namespace

}  // namespace kolo::testing
