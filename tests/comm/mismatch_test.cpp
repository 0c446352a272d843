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

// Name of the ranks before the last one in messages.
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
            const std::vector<std::byte> before(static_cast<std::size_t>(count) * size_of(type),
                                                std::byte{1});
            auto values = before;
            try {
              ranks.all_reduce(Buffer(values.data(), count, type), op);
            } catch (const Error&) {
              EXPECT_EQ(values, before) << "nothing has been moved";
              throw;
            }
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

Call broadcast_from(int root, std::size_t count = 1) {
  return {[=](const Communicator& ranks) {
            std::vector<float> values(count);
            ranks.broadcast(std::span(values), root);
          },
          fmt::format("broadcast (from root {}) of {} float32", root, count)};
}

const Call barrier = {[](const auto& ranks) { ranks.barrier(); }, "barrier"};
const Call own_memory = {[](const auto& ranks) { (void)ranks.allocate(640); },
                         "allocate of 640 bytes"};

// The last rank makes another call than the rest: every rank gets the same message, and the
// communicator still works.
RANK_TEST(Mismatch, IsNamedOnAllRanks) {
  if (communicator.size() == 1) return;
  const auto checked = communicator.checked();
  const Call shared = {[](const auto& ranks) { (void)ranks.allocate_shared(640); },
                       "allocate of 640 bytes, shared"};
  const Call of_node = {[](const auto& ranks) { (void)ranks.allocate_for_node(640); },
                        "allocate of 640 bytes, one for a node"};
  const int size = communicator.size();
  const std::pair<Call, Call> cases[] = {
      {reduced(4), reduced(50000)},
      {reduced(4), reduced(0)},
      {gathered(3), gathered(2)},
      // Equally many bytes of other types and operations.
      {reduced(4, DataType::float32, ReduceOp::max), reduced(4, DataType::int32, ReduceOp::max)},
      {reduced(4, DataType::float16), reduced(4, DataType::bfloat16)},
      {scattered(ReduceOp::average, size), scattered(ReduceOp::product, size)},
      {broadcast_from(0), broadcast_from(1)},
      {reduced(4), barrier},
      {shared, own_memory},
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

// Ranks that share memory find differences of counts there, the others by comparing calls.
bool all_share_memory(const Communicator& communicator) {
  return communicator.capabilities().shared_memory &&
         communicator.topology().local_size == communicator.size();
}

// Each rank has its own idea of the counts, which add up to the same.
RANK_TEST(Mismatch, DifferentCountsByRank) {
  if (communicator.size() == 1) return;
  const int last = communicator.size() - 1;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(communicator.size()), 2);
  if (is_last(communicator)) {
    ++counts.front();
    --counts.back();
  }
  const std::vector<float> input(static_cast<std::size_t>(is_last(communicator) ? 1 : 2));
  std::vector<float> output(2 * counts.size());
  const auto expect_words = [&](const Communicator& ranks,
                                std::initializer_list<std::string_view> words) {
    EXPECT_TRUE(says(message_of<Error>([&] {
                       ranks.all_gather_uneven(std::span(input), std::span(output), counts);
                     }),
                     words));
    EXPECT_EQ(all_reduce_value(ranks, 1), ranks.size());
  };
  if (all_share_memory(communicator))
    expect_words(communicator, {"local rank 0 has count 2 for local rank 0"});
  expect_words(communicator.checked(),
               {others_of(communicator) + " [2, 2", fmt::format("rank {} [3", last)});
}

RANK_TEST(Mismatch, AnAllToAllWithOtherCounts) {
  if (communicator.size() == 1) return;
  std::vector<std::int64_t> sent(static_cast<std::size_t>(communicator.size()), 1);
  auto received = sent;
  if (is_last(communicator)) received.front() = 4;
  const std::vector<std::int32_t> input(sent.size());
  std::vector<std::int32_t> output(input.size() + (is_last(communicator) ? 3 : 0));
  for (const bool is_checked : {false, true}) {
    const auto ranks = is_checked ? communicator.checked() : communicator;
    const bool is_local = !is_checked && all_share_memory(communicator);
    EXPECT_TRUE(says(message_of<Error>([&] {
                       ranks.all_to_all(std::span(input), sent, std::span(output), received);
                     }),
                     {fmt::format("rank 0 sends 1 int32 to {}rank {}, which expects 4",
                                  is_local ? "local " : "", communicator.size() - 1)}));
    EXPECT_EQ(all_reduce_value(ranks, 1), ranks.size());
  }
}

// Calls are compared without checked(), too, wherever ranks are.
RANK_TEST(PlainMismatch, IsAnErrorOnAllRanks) {
  if (communicator.size() == 1) return;
  const Call split = {[](const auto& ranks) { (void)ranks.split(0); }, "split"};
  std::vector<std::pair<Call, Call>> cases = {
      {reduced(4), reduced(4, DataType::int32)},
      {reduced(4), reduced(5000)},
      {reduced(4), reduced(4, DataType::float32, ReduceOp::max)},
      {reduced(4), broadcast_from(0, 4)},
      {broadcast_from(0), broadcast_from(1)},
      {barrier, split}};
  const bool allocations_meet = communicator.capabilities().backend != "threads";
  if (allocations_meet) cases.emplace_back(barrier, own_memory);
  // Twice, as a call that was right before may come in the wrong place, too.
  for (int round = 0; round < 2; ++round) {
    reduced(4).make(communicator);
    broadcast_from(0, 4).make(communicator);
    for (const auto& [usual, odd] : cases) {
      const auto& mine = is_last(communicator) ? odd : usual;
      EXPECT_TRUE(says(message_of<Error>([&] { mine.make(communicator); }),
                       {"ranks called different collectives", " " + usual.words, " " + odd.words}));
      EXPECT_EQ(all_reduce_value(communicator, 1), communicator.size());
    }
    // Large calls still work, though ranks have used their staging areas differently often.
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
  // Both handles share one order.
  std::vector<float> large(100000, 1);
  const Work work = communicator.all_reduce_async(std::span(large));
  checked.barrier();
  EXPECT_TRUE(work.is_done());
}

}  // namespace

}  // namespace kolo::testing
