#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <tuple>
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

// The largest is more than one piece in the smallest staging areas of each setting.
constexpr std::int64_t largest_count = 9011;
constexpr std::int64_t counts[] = {0, 1, 7, 64, 1000, 4099, largest_count};

// Random whole numbers from 0 to 15, made once: most of the tests' time went into making them.
std::uint8_t random_of(int rank, std::int64_t index) {
  constexpr std::size_t ranks = 8, per_rank = 5 * largest_count;
  static const auto table = [] {
    std::vector<std::uint8_t> numbers;
    numbers.reserve(ranks * per_rank);
    for (std::uint32_t of_rank = 0; of_rank < ranks; ++of_rank) {
      for (std::uint64_t i = 0; i < per_rank; ++i)
        numbers.push_back(CounterRandom(17, of_rank, i).next() % 16);
    }
    return numbers;
  }();
  return table.at(static_cast<std::size_t>(rank) * per_rank + static_cast<std::size_t>(index));
}

// Small whole numbers: their sums over a few ranks are exact in every type.
double value_of(DataType type, int rank, std::int64_t index) {
  const int random = random_of(rank, index);
  if (type == DataType::boolean) return random % 2;
  const bool is_signed = type != DataType::uint8;
  return random - (is_signed ? 8 : 0);
}

double reduced(DataType type, ReduceOp op, int ranks, std::int64_t index) {
  double result = value_of(type, 0, index);
  for (int rank = 1; rank < ranks; ++rank) {
    const double value = value_of(type, rank, index);
    if (op == ReduceOp::min)
      result = std::min(result, value);
    else if (op == ReduceOp::product)
      result *= value;
    else if (op == ReduceOp::max || type == DataType::boolean)
      result = std::max(result, value);
    else
      result += value;
  }
  return op == ReduceOp::average ? result / ranks : result;
}

double expected(DataType type, ReduceOp op, int ranks, std::int64_t index) {
  const double value = reduced(type, op, ranks, index);
  if (type <= DataType::bfloat16) return value;
  const auto whole = static_cast<std::int64_t>(value);
  if (type == DataType::int8) return static_cast<std::int8_t>(whole);
  if (type == DataType::uint8) return static_cast<std::uint8_t>(whole);
  if (type == DataType::int16) return static_cast<std::int16_t>(whole);
  return static_cast<double>(whole);
}

void fill(TypedValues& values, DataType type, int rank) {
  for (std::int64_t i = 0; i < values.count(); ++i) values.set(i, value_of(type, rank, i));
}

RANK_TEST(Collectives, AllReduceEveryType) {
  for_types_and_ops([&](DataType type, ReduceOp op) {
    for (const std::int64_t count : counts) {
      TypedValues values(type, count);
      fill(values, type, communicator.rank());
      communicator.all_reduce(values.buffer(), op);
      expect_reduced(values, type, op,
                     [&](std::int64_t i) { return expected(type, op, communicator.size(), i); });
    }
  });
}

RANK_TEST(Collectives, ReduceScatterEveryType) {
  for_types_and_ops([&](DataType type, ReduceOp op) {
    for (const std::int64_t count : counts) {
      TypedValues input(type, count * communicator.size()), output(type, count);
      fill(input, type, communicator.rank());
      communicator.reduce_scatter(input.buffer(), output.buffer(), op);
      expect_reduced(output, type, op, [&](std::int64_t i) {
        return expected(type, op, communicator.size(), communicator.rank() * count + i);
      });
    }
  });
}

RANK_TEST(Collectives, BroadcastEveryTypeAndRoot) {
  for (const DataType type : all_data_types) {
    for (const std::int64_t count : counts) {
      const int root = static_cast<int>(count % communicator.size());
      TypedValues values(type, count);
      fill(values, type, communicator.rank());
      communicator.broadcast(values.buffer(), root);
      for (std::int64_t i = 0; i < count; ++i) {
        if (values.get(i) == value_of(type, root, i)) continue;
        ADD_FAILURE() << "broadcast of " << count << " " << name_of(type) << ": element " << i;
        break;
      }
    }
  }
}

RANK_TEST(Collectives, AllGatherEveryType) {
  for (const DataType type : all_data_types) {
    for (const std::int64_t count : counts) {
      TypedValues input(type, count);
      TypedValues output(type, count * communicator.size());
      fill(input, type, communicator.rank());
      communicator.all_gather(input.buffer(), output.buffer());
      for (std::int64_t i = 0; i < output.count(); ++i) {
        const int owner = static_cast<int>(i / count);
        if (output.get(i) == value_of(type, owner, i % count)) continue;
        ADD_FAILURE() << "all-gather of " << count << " " << name_of(type) << ": element " << i;
        break;
      }
    }
  }
}

RANK_TEST(Collectives, AllGatherInPlace) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(5 * communicator.size()), -1);
  const auto mine = std::span(values).subspan(static_cast<std::size_t>(5 * communicator.rank()), 5);
  std::fill(mine.begin(), mine.end(), communicator.rank());
  communicator.all_gather(mine, std::span(values));
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], static_cast<int>(i) / 5);
}

RANK_TEST(Collectives, AllReduceInAllocatedMemory) {
  constexpr std::int64_t count = 100003;
  const auto memory = communicator.allocate(count * sizeof(float));
  const std::span values(reinterpret_cast<float*>(memory.get()), count);
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0.0F), 0.0F)
      << "allocated memory is zero-filled";
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 64, 0U);
  for (const std::int64_t part : {std::int64_t{1}, std::int64_t{65}, std::int64_t{5000}, count}) {
    const auto mine = static_cast<float>(communicator.rank());
    const auto sum = static_cast<float>(communicator.size() * (communicator.size() - 1) / 2);
    const auto before = values.first(static_cast<std::size_t>(count - part));
    const auto reduced_ones = values.last(static_cast<std::size_t>(part));
    std::ranges::fill(values, mine);
    communicator.all_reduce(reduced_ones, ReduceOp::sum);
    EXPECT_EQ(std::ranges::count(before, mine), std::ssize(before)) << part;
    EXPECT_EQ(std::ranges::count(reduced_ones, sum), part);
  }
}

// Floating-point sums depend on their order: every rank must still hold the same bits.
RANK_TEST(Collectives, AllRanksHoldTheSameBits) {
  for (const std::size_t count : {std::size_t{100}, std::size_t{9001}}) {
    std::vector<float> values(count);
    CounterRandom random(3, static_cast<std::uint32_t>(communicator.rank()), 0);
    for (float& value : values) value = random.normal();
    communicator.all_reduce(std::span(values), ReduceOp::average);
    auto of_root = values;
    communicator.broadcast(std::span(of_root), 0);
    EXPECT_EQ(std::memcmp(values.data(), of_root.data(), count * sizeof(float)), 0);
  }
}

RANK_TEST(Collectives, AsynchronousCollectivesCompleteInOrder) {
  const int ranks = communicator.size();
  std::vector<std::vector<std::int64_t>> buffers;
  for (std::int64_t i = 0; i < 20; ++i)
    buffers.emplace_back(static_cast<std::size_t>(1 + 997 * i), i + communicator.rank());
  std::vector<Work> works;
  for (auto& buffer : buffers) works.push_back(communicator.all_reduce_async(std::span(buffer)));
  std::vector<int> shared(10, communicator.rank());
  works.push_back(communicator.broadcast_async(std::span(shared), ranks - 1));
  std::vector<int> gathered(static_cast<std::size_t>(ranks));
  const int mine = 7 * communicator.rank();
  works.push_back(communicator.all_gather_async(std::span(&mine, 1), std::span(gathered)));
  std::vector<int> ones(static_cast<std::size_t>(ranks), 1);
  int scattered = 0;
  works.push_back(communicator.reduce_scatter_async(std::span(ones), std::span(&scattered, 1)));
  works.push_back(communicator.barrier_async());
  works.back().wait();
  for (const Work& work : works) EXPECT_TRUE(work.is_done());
  const std::int64_t rank_sum = ranks * (ranks - 1) / 2;
  for (std::int64_t i = 0; i < 20; ++i) {
    const auto& buffer = buffers[static_cast<std::size_t>(i)];
    EXPECT_EQ(std::ranges::count(buffer, ranks * i + rank_sum), std::ssize(buffer));
  }
  EXPECT_THAT(shared, ::testing::Each(ranks - 1));
  for (int rank = 0; rank < ranks; ++rank)
    EXPECT_EQ(gathered[static_cast<std::size_t>(rank)], 7 * rank);
  EXPECT_EQ(scattered, ranks);
}

RANK_TEST(Collectives, ABlockingCollectiveWaitsItsTurn) {
  std::vector<float> large(300000, 1);
  std::int64_t small = 1;
  const Work work = communicator.all_reduce_async(std::span(large));
  communicator.all_reduce(std::span(&small, 1));
  EXPECT_TRUE(work.is_done());
  EXPECT_EQ(small, communicator.size());
}

RANK_TEST(Collectives, SpecialValuesSurvive) {
  for (const DataType type :
       {DataType::float64, DataType::float32, DataType::float16, DataType::bfloat16}) {
    for (const ReduceOp op : all_ops) {
      TypedValues values(type, 3);
      values.set(0, communicator.rank() == communicator.size() - 1 ? NAN : 1);
      values.set(1, communicator.rank() == 0 ? INFINITY : 1);
      values.set(2, 0);
      communicator.all_reduce(values.buffer(), op);
      EXPECT_TRUE(std::isnan(values.get(0))) << name_of(type) << " " << name_of(op);
      const bool keeps_infinity = op != ReduceOp::min || communicator.size() == 1;
      EXPECT_EQ(std::isinf(values.get(1)), keeps_infinity) << name_of(type) << " " << name_of(op);
      EXPECT_EQ(values.get(2), 0);
    }
  }
}

RANK_TEST(Collectives, BytesHaveNoSign) {
  const auto mine = static_cast<std::uint8_t>(255 - 200 * (communicator.rank() % 2));
  const bool is_alone = communicator.size() == 1;
  std::vector<std::uint8_t> least(40, mine), greatest(40, mine);
  communicator.all_reduce(std::span(least), ReduceOp::min);
  communicator.all_reduce(std::span(greatest), ReduceOp::max);
  EXPECT_THAT(least, ::testing::Each(is_alone ? 255 : 55));
  EXPECT_THAT(greatest, ::testing::Each(255));
}

RANK_TEST(Collectives, WrongArgumentsAreRefused) {
  std::vector<float> values(4);
  std::vector<float> other(3);
  bool flag = false;
  EXPECT_TRUE(says(
      message_of<Error>([&] { communicator.broadcast(std::span(values), communicator.size()); }),
      {"expected 0 to"}));
  EXPECT_TRUE(
      says(message_of<Error>([&] { communicator.all_gather(std::span(values), std::span(other)); }),
           {"all-gather: 3 float32 elements and 4"}));
  EXPECT_TRUE(says(
      message_of<Error>([&] { communicator.all_reduce(std::span(&flag, 1), ReduceOp::average); }),
      {"booleans have no average"}));
  EXPECT_TRUE(
      says(message_of<Error>([&] { communicator.all_reduce(Buffer(nullptr, 3, DataType::int8)); }),
           {"expected memory"}));
  communicator.barrier();
}

RANK_TEST(Collectives, TopologyIsConsistent) {
  const Topology& topology = communicator.topology();
  std::vector<int> nodes(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span(&topology.node, 1), std::span(nodes));
  EXPECT_EQ(nodes, topology.node_of_rank);
  EXPECT_EQ(std::count(nodes.begin(), nodes.end(), topology.node), topology.local_size);
  EXPECT_EQ(*std::max_element(nodes.begin(), nodes.end()) + 1, topology.nodes);
  EXPECT_LT(topology.local_rank, topology.local_size);
}

// As the type's own addition does, in every element and on every transport.
RANK_TEST(Collectives, SumsOfShortIntegersWrap) {
  for (const auto& [type, value, modulus] :
       {std::tuple{DataType::uint8, 200, 256}, std::tuple{DataType::int8, 100, 256},
        std::tuple{DataType::int16, 30'000, 65'536}}) {
    int sum = communicator.size() * value % modulus;
    if (type != DataType::uint8 && sum >= modulus / 2) sum -= modulus;
    for (const std::int64_t count : {1, 100, 300'001}) {
      TypedValues values(type, count);
      for (std::int64_t i = 0; i < count; ++i) values.set(i, value);
      communicator.all_reduce(values.buffer());
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < count; ++i) wrong += values.get(i) != sum ? 1 : 0;
      EXPECT_EQ(wrong, 0) << name_of(type) << ", " << count;
    }
  }
}

}  // namespace

}  // namespace kolo::testing
