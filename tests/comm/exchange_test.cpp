#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>

#include "comm/typed_values.h"
#include "kolo/base/error.h"
#include "kolo/base/random.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

using Counts = std::vector<std::int64_t>;

double value_of(DataType type, int from, int to, std::int64_t index) {
  const auto number = (from * 31 + to * 7 + index * 3) % 101;
  return static_cast<double>(type == DataType::boolean ? number % 2 : number);
}

// Random counts, the same on all ranks, a third of them 0.
Counts random_counts(std::uint32_t seed, std::size_t size, std::uint32_t limit) {
  CounterRandom random(seed, 0, 0);
  Counts counts(size);
  for (auto& count : counts) count = random.next() % 3 == 0 ? 0 : random.next() % limit;
  return counts;
}

std::int64_t sum_of(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

void expect_parts(const TypedValues& output, DataType type, const Counts& counts, int to) {
  std::int64_t offset = 0;
  for (std::size_t from = 0; from < counts.size(); ++from) {
    for (std::int64_t i = 0; i < counts[from]; ++i, ++offset) {
      if (output.get(offset) == value_of(type, static_cast<int>(from), to, i)) continue;
      ADD_FAILURE() << name_of(type) << ": element " << i << " from rank " << from << " is "
                    << output.get(offset);
      return;
    }
  }
}

RANK_TEST(Exchanges, UnevenAllGatherEveryType) {
  const auto size = static_cast<std::size_t>(communicator.size());
  const auto rank = static_cast<std::size_t>(communicator.rank());
  for (const DataType type : all_data_types) {
    for (const std::uint32_t limit : {1U, 5U, 700U, 9000U}) {
      const Counts counts = random_counts(limit, size, limit);
      TypedValues input(type, counts[rank]), output(type, sum_of(counts));
      for (std::int64_t i = 0; i < input.count(); ++i)
        input.set(i, value_of(type, communicator.rank(), 0, i));
      communicator.all_gather_uneven(input.buffer(), output.buffer(), counts);
      expect_parts(output, type, counts, 0);
    }
  }
}

RANK_TEST(Exchanges, UnevenAllGatherInPlaceAndAsynchronous) {
  const auto size = static_cast<std::size_t>(communicator.size());
  Counts counts(size);
  for (std::size_t rank = 0; rank < size; ++rank) counts[rank] = static_cast<std::int64_t>(rank);
  std::vector<int> values(static_cast<std::size_t>(sum_of(counts)), -1);
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const auto mine = std::span(values).subspan(rank * (rank + 1) / 2 - rank, rank);
  std::fill(mine.begin(), mine.end(), communicator.rank());
  const Work work = communicator.all_gather_uneven_async(mine, std::span(values), counts);
  counts.assign(size, 99);  // the collective has its own copy
  work.wait();
  std::size_t offset = 0;
  for (std::size_t owner = 0; owner < size; ++owner) {
    for (std::size_t i = 0; i < owner; ++i) EXPECT_EQ(values[offset++], static_cast<int>(owner));
  }
}

// Numbers of elements that each rank sends to each, by sender; the same on all ranks.
std::vector<Counts> random_exchange(std::uint32_t seed, std::size_t size, std::uint32_t limit) {
  std::vector<Counts> rows;
  for (std::size_t from = 0; from < size; ++from)
    rows.push_back(random_counts(seed + static_cast<std::uint32_t>(from), size, limit));
  return rows;
}

Counts column_of(const std::vector<Counts>& rows, std::size_t column) {
  Counts counts;
  for (const Counts& row : rows) counts.push_back(row[column]);
  return counts;
}

void fill_parts(TypedValues& input, DataType type, int from, const Counts& counts) {
  std::int64_t offset = 0;
  for (std::size_t to = 0; to < counts.size(); ++to) {
    for (std::int64_t i = 0; i < counts[to]; ++i)
      input.set(offset++, value_of(type, from, static_cast<int>(to), i));
  }
}

RANK_TEST(Exchanges, AllToAllEveryType) {
  const auto size = static_cast<std::size_t>(communicator.size());
  const auto rank = static_cast<std::size_t>(communicator.rank());
  for (const DataType type : all_data_types) {
    for (const std::uint32_t limit : {1U, 5U, 300U, 4000U}) {
      const auto rows = random_exchange(limit * 100, size, limit);
      const Counts& sent = rows[rank];
      const Counts received = column_of(rows, rank);
      TypedValues input(type, sum_of(sent)), output(type, sum_of(received));
      fill_parts(input, type, communicator.rank(), sent);
      communicator.all_to_all(input.buffer(), sent, output.buffer(), received);
      expect_parts(output, type, received, communicator.rank());
    }
  }
}

RANK_TEST(Exchanges, AsynchronousAllToAll) {
  const auto size = static_cast<std::size_t>(communicator.size());
  std::vector<int> input(size), output(size), sums(1000, 1);
  for (std::size_t to = 0; to < size; ++to)
    input[to] = 100 * communicator.rank() + static_cast<int>(to);
  Counts ones(size, 1);
  const Work before = communicator.all_reduce_async(std::span(sums));
  const Work work = communicator.all_to_all_async(std::span(input), ones, std::span(output), ones);
  ones.assign(size, 7);  // the collective has its own copy
  work.wait();
  EXPECT_TRUE(before.is_done());
  EXPECT_THAT(sums, ::testing::Each(communicator.size()));
  for (std::size_t from = 0; from < size; ++from)
    EXPECT_EQ(output[from], 100 * static_cast<int>(from) + communicator.rank());
}

RANK_TEST(Exchanges, BadCountsAreRefused) {
  const auto size = static_cast<std::size_t>(communicator.size());
  std::vector<float> values(size), results(size);
  const Counts ones(size, 1), too_many(size + 1, 1), negative(size, -1);
  const auto uneven = [&](const Counts& counts) {
    return message_of<Error>([&] {
      communicator.all_gather_uneven(std::span(values).first(1), std::span(results), counts);
    });
  };
  EXPECT_TRUE(says(uneven(too_many), {"uneven all-gather: the ranks' counts"}));
  EXPECT_TRUE(says(uneven(negative), {"at least 0"}));
  const auto exchanged = [&](const Counts& sent, const Counts& received) {
    return message_of<Error>(
        [&] { communicator.all_to_all(std::span(values), sent, std::span(results), received); });
  };
  EXPECT_TRUE(says(exchanged(negative, ones), {"the send counts"}));
  EXPECT_TRUE(says(exchanged(ones, too_many), {"the receive counts"}));
  communicator.barrier();
}

}  // namespace

}  // namespace kolo::testing
