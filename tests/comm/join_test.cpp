#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gmock/gmock.h>

#include "comm/typed_values.h"
#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

using Counts = std::vector<std::int64_t>;

// One step of a training, of the ranks that still have data.
struct Step {
  const Communicator& communicator;
  std::vector<int> active;  // ranks that still have data, ascending
  int number = 0;

  [[nodiscard]] bool is_active(int rank) const {
    return std::binary_search(active.begin(), active.end(), rank);
  }
  [[nodiscard]] int rank() const { return communicator.rank(); }
  [[nodiscard]] int size() const { return communicator.size(); }
  [[nodiscard]] int active_count() const { return static_cast<int>(active.size()); }
};

// Some ranks have no data at all, the others one to three steps' worth; two such patterns.
int steps_of(int rank, int pattern) {
  return pattern == 0 ? (rank * 3 + 1) % 4 : (rank + 3) % 4;
}

std::vector<int> ranks_with_more_steps(int size, int pattern, int step) {
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank) {
    if (steps_of(rank, pattern) > step) ranks.push_back(rank);
  }
  return ranks;
}

// The highest rank with the most steps: ranks with as many join in the same round.
int last_to_join(int size, int pattern) {
  int last = 0;
  for (int rank = 0; rank < size; ++rank) {
    if (steps_of(rank, pattern) >= steps_of(last, pattern)) last = rank;
  }
  return last;
}

// Every rank does its steps and joins; afterwards all of them are there again, with equal numbers.
void train(const Communicator& plain, const std::function<void(const Step&)>& do_step) {
  const auto communicator = plain.checked();
  for (const int pattern : {0, 1}) {
    for (int step = 0; step < steps_of(plain.rank(), pattern); ++step) {
      do_step({communicator, ranks_with_more_steps(plain.size(), pattern, step), step});
    }
    EXPECT_EQ(communicator.join(), last_to_join(plain.size(), pattern));
    std::int64_t one = 1;
    communicator.all_reduce(std::span(&one, 1));
    EXPECT_EQ(one, plain.size());
    EXPECT_EQ(communicator.active_ranks(), plain.size());
  }
}

// Small whole numbers, so that sums and products over a few ranks are exact in every type.
double value_of(DataType type, int rank, int step, std::int64_t index) {
  const auto number = 7 * rank + 5 * step + 3 * index + rank * index;
  if (type == DataType::boolean) return static_cast<double>(number % 2);
  return static_cast<double>(number % 4) - (type == DataType::uint8 ? 0 : 1);
}

double reduced(const Step& step, DataType type, ReduceOp op, std::int64_t index) {
  double sum = 0, product = 1, least = INFINITY, greatest = -INFINITY;
  for (const int rank : step.active) {
    const double value = value_of(type, rank, step.number, index);
    sum += value;
    product *= value;
    least = std::min(least, value);
    greatest = std::max(greatest, value);
  }
  switch (op) {
    case ReduceOp::sum:
      return type == DataType::boolean ? greatest : sum;
    case ReduceOp::average:
      return type <= DataType::bfloat16 ? sum / step.active_count()
                                        : std::trunc(sum / step.active_count());
    case ReduceOp::product:
      return product;
    case ReduceOp::min:
      return least;
    case ReduceOp::max:
      return greatest;
  }
  return 0;
}

void fill(TypedValues& values, DataType type, const Step& step) {
  for (std::int64_t i = 0; i < values.count(); ++i)
    values.set(i, value_of(type, step.rank(), step.number, i));
}

void all_reduce(const Step& step) {
  for_types_and_ops([&](DataType type, ReduceOp op) {
    for (const std::int64_t count : {0, 5, 3000}) {
      TypedValues values(type, count);
      fill(values, type, step);
      step.communicator.all_reduce(values.buffer(), op);
      expect_reduced(values, type, op, [&](std::int64_t i) { return reduced(step, type, op, i); });
    }
  });
  EXPECT_EQ(step.communicator.active_ranks(), step.active_count());
}

void reduce_scatter(const Step& step) {
  for_types_and_ops([&](DataType type, ReduceOp op) {
    for (const std::int64_t count : {0, 5, 1000}) {
      TypedValues input(type, count * step.size()), output(type, count);
      fill(input, type, step);
      step.communicator.reduce_scatter(input.buffer(), output.buffer(), op);
      expect_reduced(output, type, op, [&](std::int64_t i) {
        return reduced(step, type, op, step.rank() * count + i);
      });
    }
  });
}

void all_gather(const Step& step) {
  for (const DataType type : all_data_types) {
    TypedValues input(type, 7), output(type, 7 * step.size());
    fill(input, type, step);
    fill(output, type, step);
    step.communicator.all_gather(input.buffer(), output.buffer());
    for (std::int64_t i = 0; i < output.count(); ++i) {
      const int owner = static_cast<int>(i / 7);
      const double want = step.is_active(owner) ? value_of(type, owner, step.number, i % 7) : 0;
      EXPECT_EQ(output.get(i), want) << name_of(type) << " of rank " << owner;
    }
  }
}

// The counts come from an all-gather, so joined ranks have none; and from elsewhere, so that they
// have some.
void all_gather_uneven(const Step& step) {
  const auto size = static_cast<std::size_t>(step.size());
  const std::int64_t mine = step.rank() % 3 + 1;
  Counts counts(size);
  step.communicator.all_gather(std::span(&mine, 1), std::span(counts));
  for (std::size_t rank = 0; rank < size; ++rank) {
    const auto active = step.is_active(static_cast<int>(rank));
    EXPECT_EQ(counts[rank], active ? static_cast<std::int64_t>(rank % 3 + 1) : 0);
  }
  for (const std::int64_t of_joined : {0, 2}) {
    std::vector<std::int32_t> want;
    for (std::size_t rank = 0; rank < size; ++rank) {
      const auto active = step.is_active(static_cast<int>(rank));
      if (!active) counts[rank] = of_joined;
      want.insert(want.end(), static_cast<std::size_t>(counts[rank]),
                  active ? static_cast<std::int32_t>(rank) + 10 : 0);
    }
    const std::vector<std::int32_t> input(static_cast<std::size_t>(mine), step.rank() + 10);
    std::vector<std::int32_t> output(want.size(), -1);
    step.communicator.all_gather_uneven(std::span(input), std::span(output), counts);
    EXPECT_EQ(output, want);
  }
}

void all_to_all(const Step& step) {
  Counts sent, received;
  std::vector<double> input, want;
  for (int peer = 0; peer < step.size(); ++peer) {
    const auto count_of = [](int from, int to) { return (from + 2 * to) % 3; };
    sent.push_back(count_of(step.rank(), peer));
    received.push_back(count_of(peer, step.rank()));
    input.insert(input.end(), static_cast<std::size_t>(sent.back()), 100 * step.rank() + peer);
    want.insert(want.end(), static_cast<std::size_t>(received.back()),
                step.is_active(peer) ? 100 * peer + step.rank() : 0);
  }
  std::vector<double> output(want.size(), -1);
  step.communicator.all_to_all(std::span(input), sent, std::span(output), received);
  EXPECT_EQ(output, want);
}

void broadcast(const Step& step) {
  for (const DataType type : all_data_types) {
    TypedValues values(type, 9);
    fill(values, type, step);
    const int root = step.active.back();
    step.communicator.broadcast(values.buffer(), root);
    for (std::int64_t i = 0; i < values.count(); ++i)
      EXPECT_EQ(values.get(i), value_of(type, root, step.number, i));
  }
}

void allocate_and_barrier(const Step& step) {
  const auto memory = step.communicator.allocate(4096);
  const std::span values(reinterpret_cast<float*>(memory.get()), 1024);
  std::fill(values.begin(), values.end(), static_cast<float>(step.rank()));
  step.communicator.barrier();
  step.communicator.all_reduce(values, ReduceOp::max);
  EXPECT_THAT(values, ::testing::Each(static_cast<float>(step.active.back())));
  EXPECT_NO_THROW((void)step.communicator.allocate_shared(4096));
  EXPECT_NO_THROW((void)step.communicator.allocate_for_node(4096));
}

// Sets of active ranks are whole, also when other ranks have joined the communicator that they are
// made from.
void split(const Step& step) {
  const auto part = step.communicator.split(step.rank() % 2);
  ASSERT_TRUE(part.has_value());
  EXPECT_TRUE(part->is_checked());
  const auto members = std::count_if(step.active.begin(), step.active.end(),
                                     [&](int rank) { return rank % 2 == step.rank() % 2; });
  EXPECT_EQ(part->size(), members);
  std::int64_t one = 1;
  part->all_reduce(std::span(&one, 1));
  EXPECT_EQ(one, members);
  if (part->rank() > 0) {
    EXPECT_EQ(part->join(), 0);
    return;
  }
  double value = 3;
  part->all_reduce(std::span(&value, 1), ReduceOp::average);
  EXPECT_EQ(value, 3);
  EXPECT_EQ(part->join(), 0);
}

// A sum of these would be infinite in float16.
RANK_TEST(Join, AveragesDoNotOverflow) {
  const auto checked = communicator.checked();
  if (communicator.rank() == 0) {
    (void)checked.join();
    return;
  }
  TypedValues values(DataType::float16, 2);
  values.set(0, 40000);
  values.set(1, 60000);
  checked.all_reduce(values.buffer(), ReduceOp::average);
  EXPECT_EQ(values.get(0), 40000);
  EXPECT_EQ(values.get(1), 60000);
  (void)checked.join();
}

RANK_TEST(Join, AsynchronousCollectivesAreDoneBefore) {
  const auto checked = communicator.checked();
  std::vector<float> first(5000, 1), second(1, 2);
  std::vector<Work> works = {checked.all_reduce_async(std::span(first))};
  if (communicator.rank() > 0) works.push_back(checked.all_reduce_async(std::span(second)));
  (void)checked.join();
  for (const Work& work : works) EXPECT_TRUE(work.is_done());
  EXPECT_THAT(first, ::testing::Each(static_cast<float>(communicator.size())));
  EXPECT_EQ(second[0],
            static_cast<float>(communicator.rank() > 0 ? 2 * (communicator.size() - 1) : 2));
}

RANK_TEST(Join, NumbersAgreeAfterwards) {
  const auto checked = communicator.checked();
  if (communicator.rank() > 0) (void)checked.split(0);
  (void)checked.join();
  const auto part = checked.split(0);
  const auto number = static_cast<std::int64_t>(part->group());
  EXPECT_EQ(all_reduce_value(checked, number, ReduceOp::min),
            all_reduce_value(checked, number, ReduceOp::max));
}

RANK_TEST(Join, ABroadcastFromAJoinedRank) {
  if (communicator.size() == 1) return;
  const auto checked = communicator.checked();
  float value = 0;
  const auto message = message_of<Error>([&] {
    if (communicator.rank() == 1)
      (void)checked.join();
    else
      checked.broadcast(std::span(&value, 1), 1);
  });
  EXPECT_TRUE(says(message, {"broadcast (from root 1) of 1 float32: rank 1 has joined"}));
  checked.barrier();  // all are active again
}

RANK_TEST(Join, AMismatchReachesJoinedRanks) {
  if (communicator.size() < 3) return;
  const auto checked = communicator.checked();
  std::vector<float> values(communicator.rank() == 1 ? 2 : 1);
  const auto message = message_of<Error>([&] {
    if (communicator.rank() == 0)
      (void)checked.join();
    else
      checked.all_reduce(std::span(values));
  });
  EXPECT_TRUE(says(message, {"rank 1 all-reduce (sum) of 2 float32"}));
  checked.barrier();
}

RANK_TEST(Join, AnUncheckedCommunicator) {
  EXPECT_TRUE(
      says(message_of<Error>([&] { (void)communicator.join(); }), {"use communicator.checked()"}));
}

// Ranks that have joined also take part in the sets, and in sets of these.
RANK_TEST(Join, SetsAreServed) {
  const auto checked = communicator.checked();
  const auto copy = checked.split(0), half = checked.split(communicator.rank() % 2);
  const auto inner = copy->split(0, -communicator.rank());
  if (communicator.size() > 1 && !communicator.capabilities().concurrent) {
    EXPECT_TRUE(says(message_of<Error>([&] { (void)checked.join(); }),
                     {"sets of ranks were made from this communicator"}));
    return;
  }
  for (const int pattern : {0, 1}) {
    for (int step = 0; step < steps_of(communicator.rank(), pattern); ++step) {
      const auto active = ranks_with_more_steps(communicator.size(), pattern, step);
      const auto active_of_half = std::count_if(active.begin(), active.end(), [&](int rank) {
        return rank % 2 == communicator.rank() % 2;
      });
      std::vector<std::int64_t> ones(1000, 1);
      const Work work = copy->all_reduce_async(std::span(ones));
      EXPECT_EQ(all_reduce_value(*half, std::int64_t{1}), active_of_half);
      EXPECT_EQ(all_reduce_value(*inner, 5.0, ReduceOp::average), 5.0);
      EXPECT_EQ(all_reduce_value(checked, 1), active.size());
      work.wait();
      EXPECT_THAT(ones, ::testing::Each(static_cast<std::int64_t>(active.size())));
    }
    const auto joins = copy->joins();
    EXPECT_EQ(checked.join(), last_to_join(communicator.size(), pattern));
    EXPECT_EQ(copy->joins(), joins + (communicator.size() > 1 ? 1 : 0));
    EXPECT_EQ(copy->active_ranks(), communicator.size());
    EXPECT_EQ(all_reduce_value(*inner, 1), communicator.size());
  }
}

// Nobody waits in a set for a rank that has let go of it before it joins.
RANK_TEST(Join, ASetMayBeLetGoBefore) {
  const bool is_shared =
      communicator.capabilities().shared_memory && communicator.topology().nodes == 1;
  if (communicator.size() == 1 || !is_shared || !communicator.capabilities().concurrent) return;
  const auto checked = communicator.checked();
  auto set = checked.split(0);
  const bool joins_first = communicator.rank() == 0, lets_go = communicator.rank() == 1;
  if (!joins_first) {
    EXPECT_EQ(all_reduce_value(*set, 1), communicator.size() - 1);
    if (lets_go) set.reset();
    EXPECT_EQ(all_reduce_value(checked, 1), communicator.size() - 1);
  }
  (void)checked.join();
  EXPECT_EQ(all_reduce_value(checked, 1), communicator.size());
}

// Though the join has ended in an Error, and the set is served still.
RANK_TEST(Join, AServedSetMayBeLetGo) {
  if (communicator.size() < 3 || !communicator.capabilities().concurrent) return;
  const auto checked = communicator.checked();
  auto set = checked.split(0);
  EXPECT_THROW(
      {
        if (communicator.rank() == 0) (void)checked.join();
        if (communicator.rank() == 1) checked.barrier();
        if (communicator.rank() > 1) (void)all_reduce_value(checked, 1);
      },
      Error);
  if (communicator.rank() == 0) set.reset();
  EXPECT_EQ(all_reduce_value(checked, 1), communicator.size());
  (void)checked.join();
}

// Ranks that have joined take part in earlier calls, and in later ones.
RANK_TEST(Join, WhatNeedsAllRanksIsAnErrorOnActiveOnes) {
  const auto checked = communicator.checked();
  checked.require_all_ranks("never said");
  if (communicator.size() == 1) return;
  if (communicator.rank() + 1 < communicator.size()) {
    std::vector<float> pending(9000, 1);
    checked.barrier();
    const Work work = checked.all_reduce_async(std::span(pending));
    EXPECT_EQ(message_of<Error>([&] { checked.require_all_ranks("said"); }), "said");
    work.wait();
    EXPECT_EQ(pending[0], communicator.size() - 1);
  }
  (void)checked.join();
  EXPECT_EQ(checked.joins(), 1);
  checked.require_all_ranks("never said");
}

RANK_TEST(Join, ActiveRanksGoOn) {
  for (const auto step : {all_reduce, reduce_scatter, all_gather, all_gather_uneven, all_to_all,
                          broadcast, allocate_and_barrier, split})
    train(communicator, step);
}

}  // namespace

}  // namespace kolo::testing
