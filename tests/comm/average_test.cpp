#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "comm/typed_values.h"
#include "kolo/base/random.h"
#include "support/rank_test.h"

// Exactness of reductions: averages don't overflow, 16-bit types are rounded once, in whatever
// memory the operands lie.
namespace kolo::testing {

namespace {

// Whole by every rank, in one message, staged in chunks, in several of MPI's calls.
constexpr std::int64_t counts[] = {3, 700, 9001, 70001};

// Types that have averages and whose values a double holds.
const std::pair<DataType, double> largest_of_types[] = {
    {DataType::float64, DBL_MAX}, {DataType::float32, FLT_MAX},
    {DataType::float16, 65504},   {DataType::bfloat16, to_float(BFloat16{0x7F7F})},
    {DataType::int32, INT32_MAX}, {DataType::int16, INT16_MAX},
    {DataType::int8, INT8_MAX},   {DataType::uint8, UINT8_MAX}};

// The average of what all ranks have in the same place.
TypedValues averaged(const Communicator& communicator, const TypedValues& mine, DataType type,
                     bool by_scatter) {
  TypedValues input = mine;
  if (!by_scatter) {
    communicator.all_reduce(input.buffer(), ReduceOp::average);
    return input;
  }
  TypedValues repeated(type, mine.count() * communicator.size()), output(type, mine.count());
  for (std::int64_t i = 0; i < repeated.count(); ++i) repeated.set(i, mine.get(i % mine.count()));
  communicator.reduce_scatter(repeated.buffer(), output.buffer(), ReduceOp::average);
  return output;
}

RANK_TEST(Averages, AveragesOfTheLargestValues) {
  for (const auto& [type, largest] : largest_of_types) {
    for (const std::int64_t count : counts) {
      for (const bool by_scatter : {false, true}) {
        TypedValues values(type, count);
        for (std::int64_t i = 0; i < count; ++i)
          values.set(i, i % 2 == 0 || type == DataType::uint8 ? largest : -largest);
        const double tolerance = type == DataType::float32 ? 1e-6 : 1e-14;
        expect_values(
            averaged(communicator, values, type, by_scatter), type,
            by_scatter ? "scattered average" : "average",
            [&](std::int64_t i) { return values.get(i); },
            [&](std::int64_t, double want) { return tolerance * std::abs(want); });
      }
    }
  }
}

RANK_TEST(Averages, AveragesOfInt64AreExact) {
  using Limits = std::numeric_limits<std::int64_t>;
  const std::int64_t size = communicator.size();
  for (const std::int64_t value : {Limits::max(), Limits::min(), std::int64_t{-7}}) {
    std::vector<std::int64_t> values(1000, value);
    if (communicator.rank() == 0) values[1] = value / 2;
    communicator.all_reduce(std::span(values), ReduceOp::average);
    EXPECT_EQ(values[0], value);
    // Towards zero: what is missing is a fraction of value - value / 2.
    const std::int64_t missing = value - value / 2;
    const std::int64_t fraction = missing / size + (missing % size > 0) - (missing % size < 0);
    EXPECT_EQ(values[1], value - fraction);
  }
}

constexpr std::int64_t period = 997;  // of the operands below: random numbers take time

// 16-bit operands that nearly cancel, so that a rounded partial result shows.
double operand(DataType type, int rank, std::int64_t index) {
  CounterRandom random(29, static_cast<std::uint32_t>(rank), static_cast<std::uint64_t>(index));
  const auto value = random.normal() + (rank % 2 == 0 ? 16.F : -16.F);
  return type == DataType::float16 ? to_float(to_float16(value)) : to_float(to_bfloat16(value));
}

struct Exact {
  double sum = 0, product = 1, magnitude = 0;
};

Exact exact(DataType type, int ranks, std::int64_t index) {
  Exact result;
  for (int rank = 0; rank < ranks; ++rank) {
    const double value = operand(type, rank, index);
    result.sum += value;
    result.product *= value / 4;
    result.magnitude += std::abs(value);
  }
  return result;
}

RANK_TEST(Averages, SixteenBitsAreRoundedOnce) {
  const int ranks = communicator.size();
  for (const DataType type : {DataType::float16, DataType::bfloat16}) {
    const double half_unit = type == DataType::float16 ? 0x1p-11 : 0x1p-8;
    std::vector<double> mine;
    std::vector<Exact> all;
    for (std::int64_t i = 0; i < period; ++i) {
      mine.push_back(operand(type, communicator.rank(), i));
      all.push_back(exact(type, ranks, i));
    }
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::product}) {
      for (const std::int64_t count : counts) {
        TypedValues values(type, count);
        for (std::int64_t i = 0; i < count; ++i)
          values.set(
              i, mine[static_cast<std::size_t>(i % period)] / (op == ReduceOp::product ? 4 : 1));
        communicator.all_reduce(values.buffer(), op);
        const auto whole = [&](std::int64_t i) {
          return all[static_cast<std::size_t>(i % period)];
        };
        const auto expected = [&](std::int64_t i) {
          if (op == ReduceOp::product) return whole(i).product;
          return op == ReduceOp::average ? whole(i).sum / ranks : whole(i).sum;
        };
        expect_values(values, type, name_of(op), expected, [&](std::int64_t i, double want) {
          const double magnitude = op == ReduceOp::product ? std::abs(want) : whole(i).magnitude;
          return half_unit * std::abs(want) + 1e-6 * magnitude + 0x1p-25;  // and the sum in float32
        });
      }
    }
  }
}

// Some ranks' operands lie where the others can reach them, the others' don't; in several ways.
RANK_TEST(Averages, OperandsInMemoryOfAnyKind) {
  constexpr std::int64_t count = 300001;
  const auto memory = communicator.allocate(count * sizeof(double));
  for (const int pattern : {0, 1, 2}) {
    const int rank = communicator.rank();
    const bool is_allocated = pattern == 0   ? rank == 0
                              : pattern == 1 ? rank == communicator.size() - 1
                                             : rank % 2 == 0;
    std::vector<double> ordinary(count);
    const std::span<double> values = is_allocated
                                         ? std::span(reinterpret_cast<double*>(memory.get()), count)
                                         : std::span(ordinary);
    const auto fill = [&] {
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<double>(static_cast<std::size_t>(rank) + i % 1000);
    };
    const auto expect_sum = [&](std::span<const double> sums, std::size_t first, const char* what) {
      const int ranks = communicator.size();
      for (std::size_t i = 0; i < sums.size(); ++i) {
        const double want =
            ranks * static_cast<double>((first + i) % 1000) + ranks * (ranks - 1) / 2;
        if (sums[i] == want) continue;
        ADD_FAILURE() << what << ", pattern " << pattern << ": element " << i << " is " << sums[i]
                      << ", expected " << want;
        break;
      }
    };
    fill();
    communicator.all_reduce(values);
    expect_sum(values, 0, "all-reduce");
    fill();
    const auto part = values.size() / static_cast<std::size_t>(communicator.size());
    std::vector<double> scattered(part);
    communicator.reduce_scatter(values.first(part * static_cast<std::size_t>(communicator.size())),
                                std::span(scattered));
    expect_sum(scattered, part * static_cast<std::size_t>(rank), "reduce-scatter");
    fill();
    communicator.broadcast(values, communicator.size() - 1);
    EXPECT_EQ(values[5], communicator.size() - 1 + 5);
  }
}

}  // namespace

}  // namespace kolo::testing
