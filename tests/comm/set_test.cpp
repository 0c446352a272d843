
#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "comm/call_recorder.h"
#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/rank_test.h"

namespace kolo::testing {

namespace {

// Ranks of a set's members in the communicator that it was made from.
std::vector<int> members_of(const Communicator& set, const Communicator& whole) {
  std::vector<int> ranks(static_cast<std::size_t>(set.size()));
  const int mine = whole.rank();
  set.all_gather(std::span(&mine, 1), std::span(ranks));
  return ranks;
}

// Sums of many chunks, in shared segments and in other memory.
void expect_sums_right(const Communicator& communicator) {
  const auto memory = communicator.allocate(5000 * sizeof(float));
  const std::span in_window(reinterpret_cast<float*>(memory.get()), 5000);
  std::vector<float> elsewhere(7001, 1);
  std::fill(in_window.begin(), in_window.end(), 2.0F);
  communicator.all_reduce(in_window);
  communicator.all_reduce(std::span(elsewhere));
  const auto size = static_cast<float>(communicator.size());
  EXPECT_THAT(in_window, Each(2 * size));
  EXPECT_THAT(elsewhere, Each(size));
}

RANK_TEST(Sets, SplitByColour) {
  const int color = communicator.rank() % 2;
  const auto set = communicator.split(color, -communicator.rank());
  ASSERT_TRUE(set.has_value());
  std::vector<int> expected;
  for (int rank = communicator.size() - 1; rank >= 0; --rank) {
    if (rank % 2 == color) expected.push_back(rank);
  }
  EXPECT_EQ(members_of(*set, communicator), expected);
  EXPECT_NE(set->group(), communicator.group());
  for (int peer = 0; peer < set->size(); ++peer) {
    for (int other = 0; other < set->size(); ++other) {
      const auto node_of = [&](const Communicator& checked, int rank) {
        return checked.topology().node_of_rank[static_cast<std::size_t>(rank)];
      };
      const auto rank_of = [&](int member) { return expected[static_cast<std::size_t>(member)]; };
      EXPECT_EQ(node_of(*set, peer) == node_of(*set, other),
                node_of(communicator, rank_of(peer)) == node_of(communicator, rank_of(other)));
    }
  }
  expect_sums_right(*set);
  EXPECT_FALSE(communicator.split(-1).has_value());
  const auto only_first = communicator.split(communicator.rank() == 0 ? 5 : -3);
  EXPECT_EQ(only_first.has_value(), communicator.rank() == 0);
  if (only_first) {
    EXPECT_EQ(only_first->size(), 1);
    expect_sums_right(*only_first);
  }
}

RANK_TEST(Sets, SubsetKeepsTheOrderOfItsList) {
  std::vector<int> ranks = {communicator.size() - 1};
  for (int rank = 0; rank + 2 < communicator.size(); ++rank) ranks.push_back(rank);
  const auto set = communicator.subset(ranks);
  ASSERT_EQ(set.has_value(),
            std::find(ranks.begin(), ranks.end(), communicator.rank()) != ranks.end());
  if (set) {
    EXPECT_EQ(members_of(*set, communicator), ranks);
    int value = 10 + set->rank();
    set->broadcast(std::span(&value, 1), set->size() - 1);
    EXPECT_EQ(value, 10 + set->size() - 1);
    expect_sums_right(*set);
  }
  const std::vector<int> twice = {0, 0}, none, too_large = {communicator.size()};
  for (const auto& wrong : {twice, none, too_large})
    EXPECT_THROW((void)communicator.subset(wrong), Error);
  communicator.barrier();
}

RANK_TEST(Sets, SetsOfSetsOutlive) {
  std::optional<Communicator> inner;
  std::shared_ptr<std::byte> memory;
  int ranks = 0;
  {
    const auto outer = communicator.split(communicator.rank() == 0 ? 1 : 0);
    ranks = outer->size();
    inner = outer->split(0, outer->rank());
    memory = outer->allocate(400);
  }
  ASSERT_EQ(inner->size(), ranks);
  expect_sums_right(*inner);
  const std::span values(reinterpret_cast<int*>(memory.get()), 100);
  std::fill(values.begin(), values.end(), 1);
  inner->all_reduce(values);
  EXPECT_THAT(values, Each(ranks));
  expect_sums_right(communicator);
}

// Every second rank calls the sets in another order; each set has the same sequence everywhere.
RANK_TEST(Sets, SetsWorkAtTheSameTime) {
  std::vector<std::optional<Communicator>> all = {
      communicator, communicator.split(communicator.rank() % 2),
      communicator.split(communicator.rank() == 0 ? -1 : 0)};
  if (!all[1] || !all[1]->capabilities().concurrent) return;
  const bool is_reversed = communicator.rank() % 2 == 1;
  std::vector<std::vector<std::int64_t>> buffers;
  std::vector<int> sizes;
  std::vector<Work> works;
  buffers.reserve(all.size() * 20);
  for (std::size_t turn = 0; turn < all.size(); ++turn) {
    const auto& set = all[is_reversed ? all.size() - 1 - turn : turn];
    for (std::size_t i = 0; set && i < 20; ++i) {
      buffers.emplace_back(1 + 331 * i, 1);
      sizes.push_back(set->size());
      works.push_back(set->all_reduce_async(std::span(buffers.back())));
    }
  }
  // A call on the whole, while all of these are in flight, waits its turn there.
  expect_sums_right(communicator);
  for (const Work& work : works) work.wait();
  for (std::size_t i = 0; i < buffers.size(); ++i)
    EXPECT_EQ(std::ranges::count(buffers[i], sizes[i]), std::ssize(buffers[i]));
}

// Expects that all ranks of the node see the byte that each of them writes, by local rank.
void expect_shared(const Communicator& communicator,
                   const std::function<std::byte&(std::size_t local_rank)>& byte_of) {
  const Topology& topology = communicator.topology();
  byte_of(static_cast<std::size_t>(topology.local_rank)) =
      static_cast<std::byte>(1 + communicator.rank());
  communicator.barrier();
  std::size_t peer = 0;
  for (const int rank : topology.ranks_on_node())
    EXPECT_EQ(byte_of(peer++), static_cast<std::byte>(1 + rank));
  communicator.barrier();
}

RANK_TEST(Sets, SharedMemoryIsShared) {
  const auto parts = communicator.allocate_shared(1000);
  const auto of_node = communicator.allocate_for_node(1000);
  const Topology& topology = communicator.topology();
  const int has_memory = parts.empty() ? 0 : 1;
  EXPECT_EQ(of_node != nullptr, has_memory == 1);
  EXPECT_EQ(all_reduce_value(communicator, has_memory, ReduceOp::min), has_memory);
  EXPECT_EQ(all_reduce_value(communicator, has_memory, ReduceOp::max), has_memory);
  EXPECT_TRUE(has_memory || !communicator.capabilities().shared_memory);
  if (!has_memory) return;
  ASSERT_EQ(parts.size(), static_cast<std::size_t>(topology.local_size));
  const std::byte* const mine = parts[static_cast<std::size_t>(topology.local_rank)].get();
  EXPECT_EQ(std::count(mine, mine + 1000, std::byte{0}), 1000);
  for (const void* const memory :
       {static_cast<const void*>(mine), static_cast<const void*>(of_node.get())})
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0U);
  expect_shared(communicator,
                [&](std::size_t local_rank) -> std::byte& { return parts[local_rank].get()[999]; });
  expect_shared(communicator,
                [&](std::size_t local_rank) -> std::byte& { return of_node.get()[local_rank]; });
}

// Collectives inside a task come between those asked for before and after it.
RANK_TEST(Sets, TasksTakeTheirTurn) {
  const int size = communicator.size();
  std::vector<int> before(20000, 1), after(20000, 1), inside(3000, 1);
  int last = 0;
  std::vector<Work> works;
  works.push_back(communicator.all_reduce_async(std::span(before)));
  works.push_back(communicator.enqueue([&](const Communicator& same) {
    same.all_reduce(std::span(inside));
    for (int& value : inside) value += before.front();
    same.all_reduce_async(std::span(inside)).wait();
    last = all_reduce_value(same, same.rank(), ReduceOp::max);
  }));
  works.push_back(communicator.all_reduce_async(std::span(after)));
  for (const Work& work : works) work.wait();
  EXPECT_EQ(std::ranges::count(before, size), std::ssize(before));
  EXPECT_EQ(std::ranges::count(after, size), std::ssize(after));
  EXPECT_EQ(std::ranges::count(inside, 2 * size * size), std::ssize(inside));
  EXPECT_EQ(last, size - 1);
  const Work failing = communicator.enqueue([](const Communicator&) { throw Error("no"); });
  EXPECT_THROW(failing.wait(), Error);
  communicator.barrier();
}

RANK_TEST(Sets, ListenersAreToldInOrder) {
  const auto recorder = std::make_shared<CallRecorder>();
  communicator.add_listener(recorder);
  std::vector<int> values(100, 1);
  communicator.all_reduce(std::span(values), ReduceOp::sum, {.name = "a"});
  EXPECT_THAT(recorder->take(), ElementsAre("start all-reduce (sum) of 100 int32 \"a\"",
                                            "finish all-reduce (sum) of 100 int32 \"a\""));
  communicator.broadcast_async(std::span(values), 0, {.name = "b"}).wait();
  const std::string b = "broadcast (from root 0) of 100 int32 \"b\"";
  EXPECT_THAT(recorder->take(), ElementsAre("submit " + b, "start " + b, "finish " + b));
  const auto set = communicator.split(0);
  (void)recorder->take();
  set->barrier({.name = "c"});
  EXPECT_THAT(recorder->take(), ElementsAre("start barrier \"c\"", "finish barrier \"c\""));
  communicator.remove_listener(recorder);
  communicator.barrier({.name = "d"});
  EXPECT_THAT(recorder->take(), ElementsAre());
}

// Collectives in shared memory name it; the watch ends the job where MPI carries them.
RANK_TEST(Sets, ARankThatHasLeftIsNamed) {
  const bool ranks_see_each_other =
      communicator.capabilities().shared_memory && communicator.topology().nodes == 1;
  const int last = communicator.size() - 1;
  auto set = communicator.split(0);
  set->barrier();
  if (communicator.rank() == last) set.reset();
  if (set && ranks_see_each_other && last > 0) {
    std::vector<float> values(4);
    const auto what_is_said =
        HasSubstr(fmt::format("can't be completed, because rank {} has left", last));
    EXPECT_THAT(message_of<CommunicationError>([&] { set->all_reduce(std::span(values)); }),
                what_is_said);
    const Work work = set->barrier_async();
    EXPECT_THAT(message_of<CommunicationError>([&] { work.wait(); }), what_is_said);
  }
  communicator.barrier();
}

}  // namespace

}  // namespace kolo::testing
