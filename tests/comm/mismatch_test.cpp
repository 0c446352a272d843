#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

bool is_last(const Communicator& communicator) {
  return communicator.rank() == communicator.size() - 1;
}

// The ranks before the last one, as a message names them.
std::string others_of(const Communicator& communicator) {
  const int last = communicator.size() - 1;
  return last == 1 ? "rank 0" : fmt::format("ranks 0-{}", last - 1);
}

struct Call {
  std::function<void(const Communicator&)> make;
  std::string words;
};

Call reduced(std::int64_t count, DataType type = DataType::float32, ReduceOp op = ReduceOp::sum) {
  return {[=](const Communicator& ranks) {
            std::vector<std::byte> values(static_cast<std::size_t>(count) * size_of(type));
            ranks.all_reduce(Buffer(values.data(), count, type), op);
          },
          fmt::format("all-reduce ({}) of {} {}", name_of(op), count, name_of(type))};
}

Call gathered(std::size_t count) {
  return {[=](const Communicator& ranks) {
            const std::vector<double> input(count);
            std::vector<double> output(count * static_cast<std::size_t>(ranks.size()));
            ranks.all_gather(std::span(input), std::span(output));
          },
          fmt::format("all-gather of {} float64", count)};
}

Call scattered(ReduceOp op, int size) {
  return {[=](const Communicator& ranks) {
            const std::vector<float> input(static_cast<std::size_t>(size));
            float output = 0;
            ranks.reduce_scatter(std::span(input), std::span(&output, 1), op);
          },
          fmt::format("reduce-scatter ({}) of {} float32", name_of(op), size)};
}

Call broadcast_from(int root) {
  return {[=](const Communicator& ranks) {
            float value = 0;
            ranks.broadcast(std::span(&value, 1), root);
          },
          fmt::format("broadcast (from root {}) of 1 float32", root)};
}

// The last rank makes another call than the rest: every rank gets the same message, and the
// communicator still works.
RANK_TEST(Mismatch, IsNamedOnAllRanks) {
  if (communicator.size() == 1) return;
  const auto checked = communicator.checked();
  const Call barrier = {[](const auto& ranks) { ranks.barrier(); }, "barrier"};
  const Call own = {[](const auto& ranks) { (void)ranks.allocate(640); }, "allocate of 640 bytes"};
  const Call shared = {[](const auto& ranks) { (void)ranks.allocate_shared(640); },
                       "allocate of 640 bytes, shared"};
  const Call of_node = {[](const auto& ranks) { (void)ranks.allocate_for_node(640); },
                        "allocate of 640 bytes, one for a node"};
  const int size = communicator.size();
  const std::pair<Call, Call> cases[] = {
      {reduced(4), reduced(50000)},
      {reduced(4), reduced(0)},
      {gathered(3), gathered(2)},
      // As many bytes: nothing but the words can tell.
      {reduced(4, DataType::float32, ReduceOp::max), reduced(4, DataType::int32, ReduceOp::max)},
      {reduced(4, DataType::float16), reduced(4, DataType::bfloat16)},
      {scattered(ReduceOp::average, size), scattered(ReduceOp::product, size)},
      {broadcast_from(0), broadcast_from(1)},
      {reduced(4), barrier},
      {shared, own},
      {shared, of_node}};
  for (const auto& [usual, odd] : cases) {
    const auto& mine = is_last(checked) ? odd : usual;
    EXPECT_TRUE(
        says(message_of<Error>([&] { mine.make(checked); }),
             {fmt::format("comm: ranks called different collectives: {} {}; rank {} {}; all",
                          others_of(checked), usual.words, size - 1, odd.words)}));
    EXPECT_EQ(all_reduce_value(checked, 1), size);
  }
}

RANK_TEST(Mismatch, DifferentOrder) {
  if (communicator.size() == 1) return;
  const auto checked = communicator.checked();
  std::vector<int> small(2), large(3);
  auto& first = is_last(checked) ? large : small;
  auto& second = is_last(checked) ? small : large;
  const Work one = checked.all_reduce_async(std::span(first));
  const Work other = checked.all_reduce_async(std::span(second));
  EXPECT_TRUE(says(message_of<Error>([&] { one.wait(); }), {"different collectives"}));
  EXPECT_TRUE(says(message_of<Error>([&] { other.wait(); }), {"different collectives"}));
  checked.barrier();
}

// Each rank has its own idea of the counts, which add up to the same.
RANK_TEST(Mismatch, DifferentCountsByRank) {
  if (communicator.size() == 1) return;
  const auto checked = communicator.checked();
  std::vector<std::int64_t> counts(static_cast<std::size_t>(communicator.size()), 2);
  if (is_last(checked)) {
    ++counts.front();
    --counts.back();
  }
  const std::vector<float> input(static_cast<std::size_t>(is_last(checked) ? 1 : 2));
  std::vector<float> output(2 * counts.size());
  EXPECT_TRUE(
      says(message_of<Error>(
               [&] { checked.all_gather_uneven(std::span(input), std::span(output), counts); }),
           {others_of(checked) + " [2, 2", fmt::format("rank {} [3", communicator.size() - 1)}));
  checked.barrier();
}

RANK_TEST(Mismatch, AnAllToAllWithOtherCounts) {
  if (communicator.size() == 1) return;
  const auto checked = communicator.checked();
  std::vector<std::int64_t> sent(static_cast<std::size_t>(communicator.size()), 1);
  auto received = sent;
  if (is_last(checked)) received.front() = 4;
  const std::vector<std::int32_t> input(sent.size());
  std::vector<std::int32_t> output(input.size() + (is_last(checked) ? 3 : 0));
  EXPECT_TRUE(says(
      message_of<Error>(
          [&] { checked.all_to_all(std::span(input), sent, std::span(output), received); }),
      {fmt::format("rank 0 sends 1 int32 to rank {}, which expects 4", communicator.size() - 1)}));
  checked.barrier();
}

// Without checked(), wherever ranks are: nothing has been moved, and the communicator still works.
RANK_TEST(PlainMismatch, IsAnErrorOnAllRanks) {
  if (communicator.size() == 1) return;
  std::vector<float> floats(64, 1);
  const Call sum = {[&](const auto& ranks) { ranks.all_reduce(std::span(floats).first(4)); },
                    "all-reduce (sum) of 4 float32"};
  const Call broadcast = {
      [&](const auto& ranks) { ranks.broadcast(std::span(floats).first(1), 0); },
      "broadcast (from root 0) of 1 float32"};
  const Call barrier = {[](const auto& ranks) { ranks.barrier(); }, "barrier"};
  const Call split = {[](const auto& ranks) { (void)ranks.split(0); }, "split"};
  const Call own = {[](const auto& ranks) { (void)ranks.allocate(640); }, "allocate of 640 bytes"};
  std::vector<std::pair<Call, Call>> cases = {{sum, reduced(4, DataType::int32)},
                                              {sum, reduced(5000)},
                                              {sum, reduced(4, DataType::float32, ReduceOp::max)},
                                              {sum, broadcast},
                                              {broadcast, broadcast_from(1)},
                                              {barrier, split}};
  // Allocations of threads meet nobody.
  if (communicator.capabilities().backend != "threads") cases.emplace_back(barrier, own);
  // Twice, as a call that was right before may be made in the wrong place, too.
  for (int round = 0; round < 2; ++round) {
    sum.make(communicator);
    broadcast.make(communicator);
    floats.assign(64, 1);
    for (const auto& [usual, odd] : cases) {
      const auto& mine = is_last(communicator) ? odd : usual;
      EXPECT_TRUE(says(message_of<Error>([&] { mine.make(communicator); }),
                       {"ranks called different collectives", " " + usual.words, " " + odd.words}));
      EXPECT_EQ(all_reduce_value(communicator, 1), communicator.size());
    }
    EXPECT_THAT(floats, ::testing::Each(1.F));
    // Ranks have used their staging areas differently often by now.
    std::vector<float> ones(9001, 1);
    communicator.all_reduce(std::span(ones));
    EXPECT_THAT(ones, ::testing::Each(static_cast<float>(communicator.size())));
  }
}

RANK_TEST(Mismatch, ACheckedCommunicatorIsItself) {
  const auto checked = communicator.checked();
  EXPECT_FALSE(communicator.is_checked());
  EXPECT_TRUE(checked.is_checked());
  EXPECT_TRUE(checked.checked().is_checked());
  EXPECT_EQ(checked.group(), communicator.group());
  EXPECT_EQ(checked.active_ranks(), communicator.size());
  // Both handles keep one order.
  std::vector<float> large(100000, 1);
  const Work work = communicator.all_reduce_async(std::span(large));
  checked.barrier();
  EXPECT_TRUE(work.is_done());
}

}  // namespace

}  // namespace kolo::testing
